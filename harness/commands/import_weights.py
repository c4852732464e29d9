"""The command `import`."""

from pathlib import Path

import click

from harness.missing_modules import report_missing_modules
from suite.cli import RunOptions, add_run_options
from suite.console.options import DATA_OPTIONS, MODEL_OPTIONS
from suite.console.parameters import PATH_TYPE, WORKLOAD_TYPE


@click.command("import")
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.argument("file", type=PATH_TYPE)
@add_run_options(*MODEL_OPTIONS, *DATA_OPTIONS)
def import_command(workload: str, file: Path, options: RunOptions) -> None:
    """Convert external weights into a checkpoint of WORKLOAD that can be served without training.

    FILE is a safetensors file, or a state dict that torch.load(weights_only=True) can read:
    torchvision's ResNet-50, or the weights of MLPerf's reference implementations. For a language
    model it is a folder as transformers writes it, with config.json, tokenizer.json and
    safetensors.

    The checkpoint records its origin. Nothing served from it is a result, since it was not trained
    here.

    Example: podium import resnet50 resnet50-11ad3fa6.pth --profile full --data /data/imagenet
    """
    with report_missing_modules():
        from harness.serving.weights.importing import import_weights

        import_weights(workload, file, options)
