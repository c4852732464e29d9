"""What an ONNX file is refused for, before anything runs."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness.engines.onnx.export import copy_onnx_file, read_export_notes
from harness.serving.onnx_file.graph import read_onnx_graph
from harness.serving.onnx_file.network import open_onnx_networks
from harness.serving.onnx_file.samples import generate_random_sample
from harness.serving.onnx_file.shapes import (
    parse_named_shapes,
    parse_named_values,
    resolve_input_shapes,
)
from suite.errors import MissingError, RequestError

from .conftest import save

Writer = Callable[..., Path]


def test_a_file_tells_its_inputs_and_outputs(text_file: Path) -> None:
    graph = read_onnx_graph(text_file)
    assert [(each.name, each.dtype, each.sizes) for each in graph.inputs] == [
        ("tokens", "int64", ("batch", "length")),
        ("mask", "int64", ("batch", "length")),
    ]
    assert graph.output_names == ("masked",) and graph.is_batched


def test_constants_are_no_inputs(write_classifier: Writer) -> None:
    """Files of old exporters list their weights among the inputs."""
    path = write_classifier()
    model = onnx.load(path)
    weight = helper.make_tensor_value_info("weight", TensorProto.FLOAT, (48, 10))
    model.graph.input.append(weight)
    onnx.save(model, path)
    assert [each.name for each in read_onnx_graph(path).inputs] == ["picture"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not an ONNX file: it has no graph"),
        (b"a text, and no network\n", "damaged, or not an ONNX file"),
        (b"\x80\x05K\x01.", "not an ONNX file"),
    ],
)
def test_another_file_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=why):
        read_onnx_graph(path)


def test_a_file_without_opsets_has_a_graph(write_classifier: Writer) -> None:
    path = write_classifier()
    model = onnx.load(path)
    del model.opset_import[:]
    onnx.save(model, path)
    with pytest.raises(RequestError, match=r": it names no opset \(opset_import\)"):
        read_onnx_graph(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
            "is a Git LFS pointer of 57",
        ),
        (b"<!DOCTYPE html><html>", "is a web page; an ONNX file is wanted"),
        (b"\x18\0\0\0ORTM", r"in ONNX Runtime's own format \(.ort\); an ONNX file is wanted"),
        (b"PK\x03\x04" + bytes(60), r"is an archive \(zip\); an ONNX file is wanted"),
    ],
)
def test_what_is_no_onnx_file_is_named(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=why):
        read_onnx_graph(path)


def test_a_file_above_two_gigabytes_is_named(tmp_path: Path) -> None:
    """protobuf cannot hold it, and it was called damaged."""
    path = tmp_path / "x.onnx"
    with path.open("wb") as stream:
        stream.write(b"\x08\x0a")
        stream.truncate(2 << 30)
    with pytest.raises(RequestError, match="larger than 2 GiB in one file, .* external data"):
        read_onnx_graph(path)


def change_outputs(path: Path, *outputs: object) -> Path:
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    onnx.save(model, path)
    return path


SEQUENCE = helper.make_value_info(
    "probabilities",
    helper.make_sequence_type_proto(
        helper.make_map_type_proto(
            TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        )
    ),
)
TEXTS = helper.make_tensor_value_info("label", TensorProto.STRING, ["N"])
FLOAT8 = helper.make_tensor_value_info("small", TensorProto.FLOAT8E4M3FN, ["N"])
LOGIT = helper.make_tensor_value_info("logit", TensorProto.BFLOAT16, ["N", 10])


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (SEQUENCE, "output probabilities is a sequence; podium hands tensors to LoadGen"),
        (TEXTS, "output label is of type string; podium hands tensors to LoadGen"),
        (FLOAT8, "output small is of type float8e4m3fn; podium hands tensors to LoadGen"),
    ],
)
def test_a_first_output_without_numbers_is_refused(
    write_classifier: Writer, output: object, why: str
) -> None:
    """scikit-learn's default export; a later one stays where the engine has it."""
    with pytest.raises(RequestError, match=why):
        read_onnx_graph(change_outputs(write_classifier(), output))
    path = change_outputs(write_classifier(), LOGIT, output)
    assert read_onnx_graph(path).output_names == ("logit",)


def test_a_truncated_file_is_refused(write_classifier: Writer) -> None:
    path = write_classifier()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RequestError, match=r"net\.onnx: damaged, or not an ONNX file"):
        read_onnx_graph(path)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(RequestError, match=f"--onnx {path}: no such file"):
            read_onnx_graph(path)


def test_weights_beside_the_file_are_part_of_its_hash(write_classifier: Writer) -> None:
    path = write_classifier(save_as_external_data=True, location="weights.bin", size_threshold=0)
    first = read_onnx_graph(path).sha256
    weights = path.with_name("weights.bin")
    weights.write_bytes(b"\1" + weights.read_bytes()[1:])
    assert read_onnx_graph(path).sha256 != first


def test_missing_weights_are_named(write_classifier: Writer, tmp_path: Path) -> None:
    path = write_classifier(save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "alone").mkdir()
    shutil.copy(path, tmp_path / "alone")
    with pytest.raises(RequestError, match=r"its weights are missing: no file weights\.bin"):
        read_onnx_graph(tmp_path / "alone" / path.name)


def change_place(path: Path, **changes: object) -> None:
    """Change where a file says that its weights lie."""
    model = onnx.load(path, load_external_data=False)
    (tensor,) = model.graph.initializer
    entries = {each.key: each.value for each in tensor.external_data} | changes
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"offset": 64},
            "weights.bin has 1920 bytes; tensor weight needs bytes 64 to 1984: the download is not"
            " complete",
        ),
        ({"offset": -8}, "tensor weight begins at byte -8 of weights.bin"),
        ({"length": 12}, "tensor weight has 1920 bytes, and its entry says 12"),
        ({"length": "all"}, "the place of tensor weight is no number"),
    ],
)
def test_weights_that_are_cut_are_named(
    write_classifier: Writer, changes: dict[str, object], why: str
) -> None:
    """ONNX Runtime says it after a minute of set-up, in words of its own."""
    path = write_classifier(save_as_external_data=True, location="weights.bin", size_threshold=0)
    read_onnx_graph(path)
    change_place(path, **changes)
    with pytest.raises(RequestError, match=why):
        read_onnx_graph(path)


def test_weights_behind_links_are_read(write_classifier: Writer, tmp_path: Path) -> None:
    """As in Hugging Face's cache, where every file is a link; onnx itself refuses them."""
    path = write_classifier(save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "blobs").mkdir()
    for number, each in enumerate((path, path.with_name("weights.bin"))):
        blob = tmp_path / "blobs" / f"b{number}"
        each.rename(blob)
        each.symlink_to(blob)
    assert read_onnx_graph(path).output_names == ("logit",)
    assert read_export_notes(path) == {}
    copy_onnx_file(path, tmp_path / "whole.onnx")
    picture = np.ones((1, 3, 4, 4), np.float32)
    (wanted,), (found,) = (
        onnxruntime.InferenceSession(each).run(None, {"picture": picture})
        for each in (path, tmp_path / "whole.onnx")
    )
    assert np.array_equal(wanted, found)


def test_weights_elsewhere_are_refused(write_classifier: Writer) -> None:
    """A stranger's file must not make podium read another one."""
    path = write_classifier(save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(RequestError, match="its weights lie outside its folder"):
        read_onnx_graph(path)


def test_weights_of_a_function_are_checked_like_others(write_stranger: Writer) -> None:
    """They are read, too, and are part of what is measured."""
    path = write_stranger("Twice")
    model = onnx.load(path)
    outside = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "w")
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../../etc/passwd")
    body = [
        helper.make_node("Constant", [], ["w"], value=outside),
        helper.make_node("Add", ["a", "w"], ["b"]),
    ]
    model.functions.append(
        helper.make_function("my", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    path.write_bytes(model.SerializeToString())
    with pytest.raises(RequestError, match="its weights lie outside its folder"):
        read_onnx_graph(path)


def test_unknown_operators_are_named(write_stranger: Writer) -> None:
    with pytest.raises(RequestError, match=r"odd\.onnx: unknown operator Frob of domain my$"):
        read_onnx_graph(write_stranger("Frob"))
    with pytest.raises(RequestError, match="A of domain my, .* C of domain my and 1 more"):
        read_onnx_graph(write_stranger("A", "B", "C", "D"))


def test_an_operator_that_the_file_defines_is_known(write_stranger: Writer) -> None:
    path = write_stranger("Twice")
    model = onnx.load(path)
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(
        helper.make_function("my", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    onnx.save(model, path)
    assert read_onnx_graph(path).output_names == ("x1",)


def test_an_input_that_podium_cannot_fill_is_refused(write_classifier: Writer) -> None:
    path = write_classifier(kind=TensorProto.STRING)
    with pytest.raises(RequestError, match="input picture is of type string; podium has"):
        read_onnx_graph(path)


def test_without_the_package_it_is_missing(
    write_classifier: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_classifier()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingError, match="--onnx needs the package onnx"):
        read_onnx_graph(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (text, "give an input and its sizes, as in --shape")
            for text in ("3,4", "x=", "x=a", "x=1,,2", "=1", "x=-1", "x=1.5")
        ),
        ("x=0,3", "the first size is the batch, and 0 of it is nothing to measure"),
        ("x=1x3x8", r"write the sizes with commas: --shape x=1,3,8$"),
        ("x=1 3 8", r"write the sizes with commas: --shape x=1,3,8$"),
        ("a=b/c d=1X3x8", r"write the sizes with commas: --shape 'a=b/c d=1,3,8'$"),
    ],
)
def test_a_shape_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        parse_named_shapes([text])


def test_a_decoder_starts_with_an_empty_cache(tmp_path: Path) -> None:
    """A size of 0 is the first step of each such export."""
    assert parse_named_shapes(["past=1,2,0,4"]) == {"past": (1, 2, 0, 4)}


@pytest.mark.parametrize("text", ["sr", "sr=", "sr=fast", "=1", "sr=nan", "sr=1,2"])
def test_a_value_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=f"--value {text}: give an input and its number"):
        parse_named_values([text])


def test_a_value_fits_its_input(text_file: Path) -> None:
    given = {"tokens": (1, 6)}
    for values, why in (
        ({"mask": 0.5}, "--value mask=0.5: text.onnx has int64 there"),
        ({"mask": 1e30}, "has int64 there"),
        ({"msk": 1.0}, "unknown input of --value 'msk'; did you mean 'mask'"),
    ):
        with pytest.raises(RequestError, match=why):
            open_onnx_networks([text_file], given, None, values)
    (network,) = open_onnx_networks([text_file], given, None, {"mask": 1.0})
    assert network.describe_inputs()["onnx.value.mask"] == 1.0
    mask = [generate_random_sample(network.shapes, 0, sample)[1] for sample in range(3)]
    assert all(each.tolist() == [1] * 6 for each in mask)


def test_a_name_may_have_an_equals_sign_and_none_is_given_twice() -> None:
    assert parse_named_shapes(["a=b=1, 2"]) == {"a=b": (1, 2)}
    with pytest.raises(RequestError, match="--shape x is given twice"):
        parse_named_shapes(["x=1", "x=2"])


def test_a_free_size_is_asked_for_by_input_and_option(text_file: Path) -> None:
    graph = read_onnx_graph(text_file)
    with pytest.raises(
        RequestError,
        match=r"tokens \(batchxlength\) leaves 'length' free: give all sizes, .* --shape tokens=1,8$",
    ):
        resolve_input_shapes(graph, {})
    shapes = resolve_input_shapes(graph, {"tokens": (1, 12)})
    assert [each.sizes for each in shapes] == [(12,), (12,)]


def test_all_free_sizes_are_asked_for_at_once(tmp_path: Path) -> None:
    """Each run asked for one more; paddle2onnx calls every free size "?"."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ("?", 3, "?", "?")),
        helper.make_tensor_value_info("a b", TensorProto.FLOAT, ("?", 3, "?", "?")),
        helper.make_tensor_value_info("c", TensorProto.FLOAT, ("n", "m")),
        helper.make_tensor_value_info("d", TensorProto.FLOAT, ("n", "m")),
    ]
    nodes = [helper.make_node("Add", ["x", "a b"], ["y"])]
    graph = read_onnx_graph(save(tmp_path / "ocr.onnx", nodes, inputs, ["y"]))
    with pytest.raises(
        RequestError,
        match=r"input x \(\?x3x\?x\?\) leaves size 3 and size 4 free; input a b .* free; input c"
        r" \(nxm\) leaves 'm' free: give all sizes, for example --shape x=1,3,8,8 --shape"
        r" 'a b=1,3,8,8' --shape c=1,8$",
    ):
        resolve_input_shapes(graph, {})
    given = {"x": (1, 3, 48, 192), "a b": (1, 3, 48, 192), "c": (1, 7)}
    shapes = resolve_input_shapes(graph, given)
    assert [each.sizes for each in shapes] == [(3, 48, 192), (3, 48, 192), (7,), (7,)]


def test_an_input_of_any_number_of_sizes_asks_for_them(write_classifier: Writer) -> None:
    """Without them the speed of a single number was measured."""
    path = write_classifier()
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    with pytest.raises(RequestError, match="even the number of its sizes free: .* picture=1,8$"):
        open_onnx_networks([path], {}, None)
    (network,) = open_onnx_networks([path], {"picture": (2, 3, 4, 4)}, None)
    assert network.describe_inputs() == {"onnx.shape.picture": "2x3x4x4"}
    assert network.batch == 1  # a sample is a call
    with pytest.raises(RequestError, match=r"input picture \(no sizes\) is not free"):
        network.check_batch_sizes((2,))


def test_a_single_number_needs_no_sizes(write_classifier: Writer) -> None:
    path = write_classifier()
    model = onnx.load(path)
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    onnx.save(model, path)
    (network,) = open_onnx_networks([path], {}, None)
    assert network.describe_inputs() == {"onnx.shape.picture": "1"}


def test_a_size_without_a_name_is_asked_for_by_its_place(write_classifier: Writer) -> None:
    path = write_classifier("N", 3, "", 4)
    with pytest.raises(RequestError, match="leaves size 3 free: .* picture=1,3,8,4"):
        resolve_input_shapes(read_onnx_graph(path), {})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("picture=1,3,4,5", "--shape picture=1,3,4,5: net.onnx has Nx3x4x4 there"),
        ("picture=1,3,4", "net.onnx has Nx3x4x4 there"),
        ("pictur=1,3,4,4", "unknown input of --shape 'pictur'; did you mean 'picture'"),
    ],
)
def test_a_shape_of_another_network_is_refused(
    given: str, why: str, write_classifier: Writer
) -> None:
    with pytest.raises(RequestError, match=why):
        open_onnx_networks([write_classifier()], parse_named_shapes([given]), None)


def test_one_free_size_has_one_value(text_file: Path) -> None:
    given = parse_named_shapes(["tokens=1,8", "mask=1,9"])
    with pytest.raises(RequestError, match="one size 'length', and it is given as 8 and 9"):
        open_onnx_networks([text_file], given, None)


def test_the_first_size_is_the_batch(write_classifier: Writer, text_file: Path) -> None:
    (one,) = open_onnx_networks([write_classifier()], {}, None)
    (four,) = open_onnx_networks([write_classifier()], {"picture": (4, 3, 4, 4)}, None)
    assert (one.batch, four.batch) == (1, 4)
    assert four.describe_inputs() == {"onnx.shape.picture": "Nx3x4x4"}
    with pytest.raises(RequestError, match="'batch', and it is given as 2 and 3"):
        open_onnx_networks([text_file], {"tokens": (2, 8), "mask": (3, 8)}, None)


def test_a_fixed_first_size_allows_no_batches(write_classifier: Writer) -> None:
    (network,) = open_onnx_networks([write_classifier(1, 3, 4, 4)], {}, None)
    network.check_batch_sizes((1,))
    with pytest.raises(RequestError, match=r"input picture \(1x3x4x4\) is not free"):
        network.check_batch_sizes((1, 2))


def test_two_files_of_one_name_are_two_studies(write_classifier: Writer, tmp_path: Path) -> None:
    """Half of the world's files are called model.onnx; a copy is the same network."""
    (tmp_path / "b").mkdir()
    first, other = write_classifier(), write_classifier("N", 3, 2, 8, name="b/net.onnx")
    names = [each.name for each in open_onnx_networks([first, other], {}, None)]
    assert len(set(names)) == 2 and all(each.startswith("net-") for each in names)
    copy = tmp_path / "b" / "copy" / first.name
    copy.parent.mkdir()
    shutil.copy(first, copy)
    with pytest.raises(RequestError, match=r"copy/net\.onnx: the same network as .*net\.onnx"):
        open_onnx_networks([first, copy], {}, None)


def test_a_name_keeps_its_capitals(write_classifier: Writer) -> None:
    (network,) = open_onnx_networks([write_classifier(name="ch_PP-OCRv4 det.onnx")], {}, None)
    assert network.name.startswith("ch_PP-OCRv4-det-")


def test_a_name_in_any_script_gives_a_folder(write_classifier: Writer) -> None:
    (network,) = open_onnx_networks(
        [write_classifier(name="網 ../x.onnx".replace("/", ""))], {}, None
    )
    assert network.name.endswith(".onnx") and "/" not in network.name


SIZES = ((4, 4), (2, 8), (8, 2))


def test_names_in_another_script_are_two_studies(write_classifier: Writer) -> None:
    """The second file would replace what was measured of the first."""
    names = ("模型.onnx", "网络.onnx", "net.onnx")
    files = [
        write_classifier("N", 3, *sizes, name=name)
        for name, sizes in zip(names, SIZES, strict=True)
    ]
    assert len({each.name for each in open_onnx_networks(files, {}, None)}) == 3


def samples(folder: Path, *arrays: object) -> Path:
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array, allow_pickle=True)
    return folder


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((3, 4, 5), np.float32), r"has the sizes \(3, 4, 5\), and the network takes"),
        (np.zeros((3, 4, 4), np.float64), "picture is float64, and the network takes float32"),
        (np.array([{}], object), "cannot be read as plain arrays"),
    ],
)
def test_a_sample_of_another_network_is_refused(
    array: object, why: str, write_classifier: Writer, tmp_path: Path
) -> None:
    good = np.zeros((3, 4, 4), np.float32)
    data = samples(tmp_path / "data", good, good[None], array)
    with pytest.raises(RequestError, match=why) as told:
        open_onnx_networks([write_classifier()], {}, data)
    assert "2.npy" in str(told.value)


def test_samples_give_the_free_sizes(text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tokens = np.ones((9,), np.int64)
    np.savez(tmp_path / "data" / "a.npz", tokens=tokens, mask=tokens)
    (network,) = open_onnx_networks([text_file], {}, tmp_path / "data")
    assert [each.sizes for each in network.shapes] == [(9,), (9,)]
    assert len(str(network.describe_inputs()["onnx.data"])) == 64


def test_a_sample_without_its_sizes_is_told_of_the_sample(text_file: Path, tmp_path: Path) -> None:
    """No --shape was typed, so none is named; and an input with a value needs no array."""
    (tmp_path / "data").mkdir()
    ones = np.ones((2, 3, 4), np.int64)
    np.savez(tmp_path / "data" / "a.npz", tokens=ones, mask=ones)
    with pytest.raises(
        RequestError,
        match=r"--data .*a\.npz: tokens has the sizes 2x3x4, and text\.onnx takes batchxlength",
    ):
        open_onnx_networks([text_file], {}, tmp_path / "data")
    np.savez(tmp_path / "data" / "a.npz", tokens=np.ones(3, np.int64), mask=np.ones(4, np.int64))
    with pytest.raises(RequestError, match=r"--data .*a\.npz: .* it is given as 3 and 4"):
        open_onnx_networks([text_file], {}, tmp_path / "data")
    np.savez(tmp_path / "data" / "a.npz", tokens=np.ones(3, np.int64))
    (network,) = open_onnx_networks([text_file], {}, tmp_path / "data", {"mask": 1.0})
    assert network.files is not None
    assert network.files.read_sample(0, network.shapes)[1].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.txt", b"x", "no samples: an ONNX file takes a .npz"),
        ("a.npz", b"PK\x03\x04 broken", "cannot be read as plain arrays"),
        ("a.npy", b"", "cannot be read as plain arrays"),
    ],
)
def test_data_that_are_no_samples_are_refused(
    name: str, content: bytes, why: str, text_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(content)
    with pytest.raises(RequestError, match=why):
        open_onnx_networks([text_file], {}, tmp_path / "data")


def test_two_inputs_need_an_array_for_each(text_file: Path, tmp_path: Path) -> None:
    data = samples(tmp_path / "data", np.ones((9,), np.int64))
    with pytest.raises(RequestError, match="has the inputs tokens, mask: give a .npz"):
        open_onnx_networks([text_file], {}, data)
    (data / "0.npy").unlink()
    np.savez(data / "0.npz", tokens=np.ones((9,), np.int64))
    with pytest.raises(RequestError, match="no array mask; it has tokens"):
        open_onnx_networks([text_file], {}, data)
