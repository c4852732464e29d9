"""The settings of a run as typed records, with their names in a log; no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.setting_values import Settings, flag, number, numbers, positive, text, whole
from workloads.minigo.go.board import FEWEST_SIDE, MOST_SIDE
from workloads.minigo.go.ending import Rules
from workloads.minigo.go.features import SEEN
from workloads.minigo.go.games import Habits

AREA, CHECKPOINT, NOISE = "area", "checkpoint", "noise"
ALPHA_POINTS: Final = (
    0.03 * 361
)  # mlcommons/training v0.6, minigo, cc/mcts_player.cc: Dirichlet alpha 0.03 * 361 / points
MIN_GAMES: Final = "min_selfplay_games_per_generation"

# mlcommons/logging 0.7.0, closed_minigo.yaml: train_batch_size, lr_rates, lr_boundaries and the two
# counts of games; the others as
# mlcommons/training v0.7, reinforcement/tensorflow/minigo logs them.
LOGGED: Final = (
    "opt_name",
    "train_batch_size",
    "lr_rates",
    "lr_boundaries",
    MIN_GAMES,
    "virtual_losses",
    "opt_weight_decay",
    "num_readouts",
    "value_init_penalty",
    "disable_resign_pct",
    "resign_threshold",
    "window_size",
    "eval_games",
)


def hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Name what a log must have; what has no value is left out, and the judge misses it. A
    generation has as many games as it must have.
    """
    found = {key: settings[key] for key in LOGGED if key in settings}
    return found | (
        {"actual_selfplay_games_per_generation": settings[MIN_GAMES]}
        if MIN_GAMES in settings
        else {}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one run plays, learns and is evaluated."""

    board: int
    rules: Rules
    planes: int
    filters: int
    blocks: int
    hidden: int
    games: int
    """Of a generation."""
    group: int
    """Games that are played side by side; what is drawn in them follows from the group."""
    start: str
    """Who plays the first generation: a model of noise, or a checkpoint."""
    pass_last: bool
    """No simple eye is filled, and a pass comes where nothing else is left."""
    selfplay: Habits
    window: int
    """Generations whose positions are learnt from."""
    examples: int
    """Positions that a generation's steps learn from, each drawn from the window."""
    batch_size: int
    rates: tuple[float, ...]
    boundaries: tuple[float, ...]
    momentum: float
    weight_decay: float
    value_weight: float
    opponent: str
    eval_games: int
    eval_group: int
    evaluated: Habits
    against: Habits
    workers: int
    shuffle_labels: bool

    @classmethod
    def of(cls, settings: Settings) -> "Recipe":
        """Read the settings; RequestError names the one that does not fit."""
        board = board_of(settings)
        readouts, penalty = (
            positive(settings, "eval.readouts"),
            number(settings, "value_init_penalty"),
        )
        made = cls(
            board=board,
            rules=rules_of(settings),
            planes=planes_of(settings),
            filters=positive(settings, "model.filters"),
            blocks=whole(settings, "model.blocks"),
            hidden=positive(settings, "model.hidden"),
            games=positive(settings, MIN_GAMES),
            group=positive(settings, "selfplay.games_per_group"),
            start=text(settings, "model.start"),
            pass_last=flag(settings, "search.pass_last"),
            selfplay=selfplay_of(settings, board),
            window=positive(settings, "window_size"),
            examples=positive(settings, "training.examples_per_generation"),
            batch_size=positive(settings, "train_batch_size"),
            rates=numbers(settings, "lr_rates"),
            boundaries=numbers(settings, "lr_boundaries"),
            momentum=number(settings, "sgd.momentum"),
            weight_decay=number(settings, "opt_weight_decay"),
            value_weight=number(settings, "loss.value_weight"),
            opponent=text(settings, "eval.opponent"),
            eval_games=positive(settings, "eval_games"),
            eval_group=positive(settings, "eval.games_per_group"),
            evaluated=Habits(
                readouts=readouts, penalty=penalty, soft_moves=whole(settings, "eval.soft_moves")
            ),
            against=Habits(
                readouts=positive(settings, "eval.opponent_readouts"),
                penalty=penalty,
                soft_moves=whole(settings, "eval.opponent_soft_moves"),
            ),
            workers=whole(settings, "data.workers"),
            shuffle_labels=flag(settings, "data.shuffle_labels"),
        )
        made.check()
        return made

    def check(self) -> None:
        """Refuse what does not go together; RequestError."""
        if self.games % self.group or self.eval_games % self.eval_group or self.eval_group % 2:
            raise RequestError(
                "games are played in whole groups: games per generation and eval_games are"
                " multiples of their groups, eval's of an even one"
            )
        if len(self.rates) != len(self.boundaries) + 1:
            raise RequestError(
                f"lr_rates has {len(self.rates)} rates and lr_boundaries {len(self.boundaries)}"
                " steps: one rate more than steps is needed"
            )

    @property
    def groups(self) -> int:
        """Groups of games of a generation."""
        return self.games // self.group

    @property
    def steps(self) -> int:
        """Optimizer steps of a generation; the last one may be smaller."""
        return -(-self.examples // self.batch_size)

    def samples(self, step: int) -> int:
        """Count the positions of a generation's step, from 0."""
        return min(self.batch_size, self.examples - step * self.batch_size)

    def rate(self, step: int) -> float:
        """Give the learning rate of a step of the run, from 0."""
        return self.rates[sum(step >= boundary for boundary in self.boundaries)]


def board_of(settings: Settings) -> int:
    """Give the board's side; RequestError for one that is not played."""
    size = positive(settings, "board.size")
    if not FEWEST_SIDE <= size <= MOST_SIDE:
        raise RequestError(f"board.size={size}: boards of {FEWEST_SIDE} to {MOST_SIDE} are played")
    return size


def planes_of(settings: Settings) -> int:
    """Give the number of planes; RequestError for one that nobody has."""
    planes = positive(settings, "model.planes")
    if planes not in SEEN:
        raise RequestError(f"model.planes={planes}: {' or '.join(map(str, sorted(SEEN)))}")
    return planes


def rules_of(settings: Settings) -> Rules:
    """Say how games end."""
    return Rules(komi=number(settings, "board.komi"), limit=positive(settings, "game.move_limit"))


def selfplay_of(settings: Settings, board: int) -> Habits:
    """Say how a network plays against itself."""
    return Habits(
        readouts=positive(settings, "num_readouts"),
        at_once=positive(settings, "virtual_losses"),
        penalty=number(settings, "value_init_penalty"),
        soft_moves=whole(settings, "selfplay.soft_moves"),
        noise_alpha=ALPHA_POINTS / board**2,
        noise_share=number(settings, "selfplay.noise_share"),
        resign_below=number(settings, "resign_threshold"),
        never_resign_share=number(settings, "disable_resign_pct"),
        pruned=flag(settings, "selfplay.target_pruning"),
    )
