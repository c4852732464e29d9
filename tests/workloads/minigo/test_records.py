"""Game records: what is read, and what is refused by a sentence that names it."""

from pathlib import Path

import pytest

from suite.errors import RequestError
from workloads.minigo.positions import embedded
from workloads.minigo.positions.moves import format_go_move, parse_go_move
from workloads.minigo.positions.records import (
    check_position_labels,
    read_game_record,
    read_game_records,
    read_position_labels,
    replay_to_positions,
)


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "ascii")
    return folder / name


def test_a_vertex_is_read_as_it_is_written() -> None:
    """Columns have no I, rows count from below."""
    assert [format_go_move(move, 9) for move in (0, 8, 72, 81)] == ["A9", "J9", "A1", "pass"]
    assert all(parse_go_move(format_go_move(move, 19), 19) == move for move in range(362))
    assert [parse_go_move(text, 5) for text in ("I3", "F1", "A0", "A6", "", "a1", "A²")] == [
        None
    ] * 7


def test_a_record_is_read(tmp_path: Path) -> None:
    """Moves from the upper left, the pass, who won."""
    path = write(tmp_path, "a.sgf", "(;GM[1]SZ[5]KM[7.5]RE[W+R];B[aa];W[ee];B[])")
    found = read_game_record(path, 5)
    assert found.moves == (0, 24, 25) and found.winner == -1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("(;SZ[5];B[aa];W[aa])", "a.sgf: move 2, white A5, is illegal: the point is not empty"),
        ("(;SZ[5];B[ba];W[ee];B[ab];W[aa])", "a.sgf: move 4, white A5, is illegal: it is suicide"),
        (
            "(;SZ[5];B[ba];W[ca];B[ab];W[db];B[bc];W[cc];B[cb];W[bb];B[cb])",
            "a.sgf: move 9, black C4, is illegal: it repeats an earlier position",
        ),
        ("(;SZ[5];B[];W[];B[aa])", "a.sgf: move 3 comes after two passes"),
        ("(;SZ[5];B[aa];B[bb])", "move 2 is black's; the colours must alternate"),
        ("(;SZ[5];W[aa])", "move 1 is white's"),
        ("(;SZ[9];B[aa])", "a game on 9 x 9, but the board is 5 x 5"),
        ("(;SZ[5]AB[aa];W[bb])", "set-up stones"),
        ("(;SZ[5];B[zz])", "not a readable game record"),
        ("no record", "not a readable game record"),
        ("", "not a readable game record"),
    ],
)
def test_a_bad_record_is_refused_and_named(tmp_path: Path, text: str, told: str) -> None:
    """A label behind an illegal move would be one of another game."""
    with pytest.raises(RequestError, match=told.replace("(", r"\(")) as caught:
        read_game_record(write(tmp_path, "a.sgf", text), 5)
    assert "\n" not in str(caught.value)


def test_records_that_a_file_system_adds_are_left_out(tmp_path: Path) -> None:
    """macOS writes `._a.sgf` beside a.sgf on a foreign disk: it has the name and is no record."""
    write(tmp_path, "a.sgf", "(;SZ[5]RE[W+R];B[aa])")
    write(tmp_path, "._a.sgf", "Mac OS X")
    assert [record.name for record in read_game_records(tmp_path, 5)] == ["a.sgf"]


def test_without_labels_the_moves_are_asked_for(tmp_path: Path) -> None:
    """MLPerf v0.5's measure: each move of the records, and who won."""
    write(tmp_path / "games", "a.sgf", "(;SZ[5]RE[B+3];B[aa];W[ee])")
    records = read_game_records(tmp_path / "games", 5)
    assert [
        (label.played, label.move, label.winner)
        for label in read_position_labels(tmp_path, records, 5)
    ] == [(0, 0, 1), (1, 24, 1)]
    write(tmp_path / "games", "b.sgf", "(;SZ[5];B[aa])")
    with pytest.raises(RequestError, match=r"b.sgf: the record does not state who won"):
        read_position_labels(tmp_path, read_game_records(tmp_path / "games", 5), 5)


@pytest.mark.parametrize(
    "line",
    [
        "a.sgf,3,A1,B",
        "b.sgf,1,A1,B",
        "a.sgf,1,Z1,B",
        "a.sgf,1,A1,X",
        "a.sgf,-1,A1,B",
        "a.sgf,1,A1",
        "a.sgf,x,A1,B",
    ],
)
def test_a_label_that_fits_no_game_is_refused(tmp_path: Path, line: str) -> None:
    """By file and line."""
    write(tmp_path / "games", "a.sgf", "(;SZ[5];B[aa];W[ee])")
    write(tmp_path, "labels.csv", f"a.sgf,2,A1,B\n{line}\n")
    with pytest.raises(RequestError, match=r"labels.csv, line 2: "):
        read_position_labels(tmp_path, read_game_records(tmp_path / "games", 5), 5)


@pytest.mark.parametrize(("line", "told"), [("a.sgf,2,A5,B", "A5"), ("b.sgf,5,B5,B", "B5")])
def test_a_label_that_is_an_illegal_move_is_refused(tmp_path: Path, line: str, told: str) -> None:
    """No answer could find it: an occupied point, or suicide."""
    write(tmp_path / "games", "a.sgf", "(;SZ[5];B[aa];W[ee])")
    write(tmp_path / "games", "b.sgf", "(;SZ[5];B[aa];W[ee];B[bb];W[ed];B[ca])")
    write(tmp_path, "labels.csv", f"a.sgf,2,A1,B\n{line}\n")
    records = read_game_records(tmp_path / "games", 5)
    with pytest.raises(
        RequestError, match=rf"labels.csv: {line[:5]} after . moves: {told} is illegal there"
    ):
        check_position_labels(
            tmp_path / "labels.csv", records, read_position_labels(tmp_path, records, 5), 5
        )


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    """Rather than a score of no positions."""
    with pytest.raises(RequestError, match="no game records"):
        read_game_records(tmp_path / "games", 5)


def test_games_side_by_side_are_the_same_games(tmp_path: Path) -> None:
    """Of different lengths, asked for in any order: the positions of each game are those that it
    has alone.
    """
    texts = (
        "B[ba];W[ca];B[ab];W[db];B[bc];W[cc];B[cb];W[bb]",
        "B[aa];W[ee];B[bb];W[ed];B[ca]",
        "B[];W[cc]",
    )
    for number, text in enumerate(texts):
        write(tmp_path, f"{number}.sgf", f"(;SZ[5]RE[B+];{text})")
    records = read_game_records(tmp_path, 5)
    asked = [
        (f"{number}.sgf", played)
        for played in (2, 8, 0, 5)
        for number in (2, 0, 1)
        if played <= len(records[number].moves)
    ]
    for one, found in zip(asked, replay_to_positions(records, asked, 5, 13), strict=True):
        (alone,) = replay_to_positions([records[int(one[0][0])]], [one], 5, 13)
        assert (found.plane_FP == alone.plane_FP).all()
        assert (found.legal_A == alone.legal_A).all()
    write(tmp_path, "3.sgf", "(;SZ[5];B[aa];W[aa])")
    with pytest.raises(
        RequestError, match=r"3.sgf: move 2, white A5, is illegal: the point is not empty"
    ):
        read_game_records(tmp_path, 5)


@pytest.mark.slow
def test_the_embedded_records_are_what_is_packed(tmp_path: Path) -> None:
    """Through the records and back: moves, labels, winners; each label is legal, and none is of the
    calibration's.
    """
    embedded.write_embedded_positions(tmp_path)
    packed = [row for row in embedded.read_embedded_positions() if row[0] == "val"]
    records = read_game_records(tmp_path / "games", embedded.EMBEDDED_BOARD_SIDE)
    labels = read_position_labels(tmp_path, records, embedded.EMBEDDED_BOARD_SIDE)
    assert [list(record.moves) for record in records] == [moves for _, moves, _, _ in packed]
    assert [(label.move, "B" if label.winner > 0 else "W") for label in labels] == [
        (move, winner) for _, _, move, winner in packed
    ]
    shown = replay_to_positions(
        records, [(label.name, label.played) for label in labels], embedded.EMBEDDED_BOARD_SIDE, 13
    )
    assert all(position.legal_A[label.move] for position, label in zip(shown, labels, strict=True))
    calibration = {
        tuple(moves)
        for part, moves, _, _ in embedded.read_embedded_positions()
        if part == "calibration"
    }
    assert calibration and not calibration & {record.moves for record in records}
