"""Batch-norm folded into the convolution before it: in inference it only scales and shifts the
convolution's output, and a separate layer reads and writes all of it once more.

The two are equal up to rounding; the tests compare the logits of each workload's network.
"""

import copy
from collections import Counter
from collections.abc import Iterator

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

ConvolutionNorm = tuple[str, str]
"""The names of a convolution and of the batch-norm behind it."""


def fold_batch_norms(module: nn.Module) -> int:
    """Fold the batch-norm layers of a module in evaluation mode into their convolutions, in place;
    return their count. A module whose calls cannot be traced stays as it is.
    """
    if not any(isinstance(part, nn.BatchNorm2d) for part in module.modules()):
        return 0
    found = find_foldable_norms(module)
    for convolution_name, norm_name in found:
        convolution, norm = (
            module.get_submodule(convolution_name),
            module.get_submodule(norm_name),
        )
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        fold_into_convolution(convolution, norm)
        parent, _, name = norm_name.rpartition(".")
        setattr(module.get_submodule(parent), name, nn.Identity())
    return len(found)


def find_foldable_norms(module: nn.Module) -> list[ConvolutionNorm]:
    """Return the pairs whose convolution is read by its batch-norm alone, each called once and its
    weights read by nothing else; none if
    the module's calls depend on its data.
    """
    try:
        graph = fx.symbolic_trace(copy.deepcopy(module)).graph
    except Exception:  # whatever a workload's own code makes of tensors without values
        return []
    calls = [node for node in graph.nodes if node.op == "call_module"]
    times = Counter(str(node.target) for node in calls)
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    return [
        pair
        for pair in iterate_pairs(module, calls)
        if all(times[name] == 1 and name not in read for name in pair)
    ]


def iterate_pairs(module: nn.Module, calls: list[fx.Node]) -> Iterator[ConvolutionNorm]:
    """Yield the batch-norm calls that read a convolution which nothing else reads."""
    for call in calls:
        norm, source = module.get_submodule(str(call.target)), call.args[0] if call.args else None
        if not (type(norm) is nn.BatchNorm2d and norm.running_mean is not None):
            continue
        if not (isinstance(source, fx.Node) and source.op == "call_module"):
            continue
        convolution = module.get_submodule(str(source.target))
        if type(convolution) is nn.Conv2d and len(source.users) == 1:
            yield str(source.target), str(call.target)


def fold_into_convolution(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    """Give a convolution the weights and bias that do the batch-norm's work, too."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    weight, bias = fuse_conv_bn_weights(
        convolution.weight.detach(),
        convolution.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
    if convolution.weight.is_contiguous(memory_format=torch.channels_last):
        layout = torch.channels_last
    else:
        layout = torch.contiguous_format
    convolution.weight = nn.Parameter(
        weight.detach().contiguous(memory_format=layout), requires_grad=False
    )
    convolution.bias = nn.Parameter(bias.detach(), requires_grad=False)
