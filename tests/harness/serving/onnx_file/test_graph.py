"""What an ONNX file is refused for, before anything runs."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from harness.serving.onnx_file.graph import read_onnx_graph
from harness.serving.onnx_file.network import open_onnx_networks
from harness.serving.onnx_file.shapes import parse_named_shapes, resolve_input_shapes
from suite.errors import MissingError, RequestError

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


@pytest.mark.parametrize("text", ["3,4", "x=", "x=a", "x=1,,2", "x=0,3", "=1", "x=-1", "x=1.5"])
def test_a_shape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="give an input and its sizes, as in --shape"):
        parse_named_shapes([text])


def test_a_name_may_have_an_equals_sign_and_none_is_given_twice() -> None:
    assert parse_named_shapes(["a=b=1, 2"]) == {"a=b": (1, 2)}
    with pytest.raises(RequestError, match="--shape x is given twice"):
        parse_named_shapes(["x=1", "x=2"])


def test_a_free_size_is_asked_for_by_input_and_option(text_file: Path) -> None:
    graph = read_onnx_graph(text_file)
    with pytest.raises(
        RequestError,
        match=r"input tokens \(batchxlength\) leaves 'length' free: .* --shape tokens=1,8$",
    ):
        resolve_input_shapes(graph, {})
    shapes = resolve_input_shapes(graph, {"tokens": (1, 12)})
    assert [each.sizes for each in shapes] == [(12,), (12,)]


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


def test_two_files_of_one_name_are_refused(write_classifier: Writer, tmp_path: Path) -> None:
    """Their studies would be one."""
    first = write_classifier()
    (tmp_path / "b").mkdir()
    second = tmp_path / "b" / "Net.onnx"
    shutil.copy(first, second)
    with pytest.raises(RequestError, match=r"would have the name of .*net\.onnx's, net\.onnx"):
        open_onnx_networks([first, second], {}, None)


def test_a_name_in_any_script_gives_a_folder(write_classifier: Writer) -> None:
    (network,) = open_onnx_networks(
        [write_classifier(name="網 ../x.onnx".replace("/", ""))], {}, None
    )
    assert network.name.endswith(".onnx") and "/" not in network.name


def test_names_in_another_script_are_two_studies(write_classifier: Writer) -> None:
    """The second file would replace what was measured of the first."""
    files = [write_classifier(name=name) for name in ("模型.onnx", "网络.onnx", "net.onnx")]
    names = [each.name for each in open_onnx_networks(files, {}, None)]
    assert len(set(names)) == 3 and names[2] == "net.onnx"


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
