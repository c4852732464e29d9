"""The settings of a run as typed records, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.setting_values import (
    Settings,
    SettingsRecord,
    declare_field,
    declare_flag,
    declare_integer,
    declare_number,
    declare_numbers,
    declare_positive,
    declare_text,
    require_flag_setting,
    require_integer_setting,
    require_number_setting,
    require_positive_setting,
    select_present_settings,
)
from workloads.minigo.go.board import MAX_BOARD_SIDE, MIN_BOARD_SIDE
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.features import SHOWN_POSITIONS_BY_PLANES
from workloads.minigo.go.games import PlayerSettings

CHECKPOINT_PLAYER: Final = "checkpoint"
# mlcommons/training v0.6, minigo, cc/mcts_player.cc: Dirichlet alpha 0.03 * 361 / points
DIRICHLET_ALPHA_TIMES_POINTS: Final = 0.03 * 361
MIN_GAMES_SETTING: Final = "min_selfplay_games_per_generation"

# mlcommons/logging 0.7.0, closed_minigo.yaml: train_batch_size, lr_rates, lr_boundaries and the two
# counts of games; the others as
# mlcommons/training v0.7, reinforcement/tensorflow/minigo logs them.
MINIGO_LOGGED_HYPERPARAMETERS: Final = (
    "opt_name",
    "train_batch_size",
    "lr_rates",
    "lr_boundaries",
    MIN_GAMES_SETTING,
    "virtual_losses",
    "opt_weight_decay",
    "num_readouts",
    "value_init_penalty",
    "disable_resign_pct",
    "resign_threshold",
    "window_size",
    "eval_games",
)


def select_minigo_hyperparameters(settings: Settings) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that a log must have; those without a value are left out, and the
    judge reports them as missing. The number of games per generation is exact.
    """
    found = select_present_settings(settings, MINIGO_LOGGED_HYPERPARAMETERS)
    if MIN_GAMES_SETTING in settings:
        found["actual_selfplay_games_per_generation"] = settings[MIN_GAMES_SETTING]
    return found


def require_board_side(settings: Settings) -> int:
    """Return the board's side; RequestError for an unsupported one."""
    size = require_positive_setting(settings, "board.size")
    if not MIN_BOARD_SIDE <= size <= MAX_BOARD_SIDE:
        raise RequestError(
            f"board.size={size}: boards from {MIN_BOARD_SIDE} to {MAX_BOARD_SIDE} are supported"
        )
    return size


def require_plane_count(settings: Settings) -> int:
    """Return the number of planes; RequestError for an unsupported one."""
    planes = require_positive_setting(settings, "model.planes")
    if planes not in SHOWN_POSITIONS_BY_PLANES:
        raise RequestError(
            f"model.planes={planes}: {' or '.join(map(str, sorted(SHOWN_POSITIONS_BY_PLANES)))}"
        )
    return planes


def build_game_rules(settings: Settings) -> GameRules:
    """Return the rules by which games end."""
    return GameRules(
        komi=require_number_setting(settings, "board.komi"),
        limit=require_positive_setting(settings, "game.move_limit"),
    )


def build_selfplay_settings(settings: Settings) -> PlayerSettings:
    """Return the settings of self-play."""
    return PlayerSettings(
        readouts=require_positive_setting(settings, "num_readouts"),
        readouts_at_once=require_positive_setting(settings, "virtual_losses"),
        penalty=require_number_setting(settings, "value_init_penalty"),
        soft_moves=require_integer_setting(settings, "selfplay.soft_moves"),
        noise_alpha=DIRICHLET_ALPHA_TIMES_POINTS / require_board_side(settings) ** 2,
        noise_share=require_number_setting(settings, "selfplay.noise_share"),
        resign_below=require_number_setting(settings, "resign_threshold"),
        never_resign_share=require_number_setting(settings, "disable_resign_pct"),
        prune_noise_visits=require_flag_setting(settings, "selfplay.target_pruning"),
    )


def declare_evaluated_player(readouts_key: str, soft_moves_key: str) -> PlayerSettings:
    """Declare a field that is a player of the evaluation's games."""
    return declare_field(
        lambda settings: PlayerSettings(
            readouts=require_positive_setting(settings, readouts_key),
            penalty=require_number_setting(settings, "value_init_penalty"),
            soft_moves=require_integer_setting(settings, soft_moves_key),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniGoRecipe(SettingsRecord):
    """How a run plays, learns and is evaluated."""

    board: int = declare_field(require_board_side)
    rules: GameRules = declare_field(build_game_rules)
    planes: int = declare_field(require_plane_count)
    filters: int = declare_positive("model.filters")
    blocks: int = declare_integer("model.blocks")
    hidden: int = declare_positive("model.hidden")
    games: int = declare_positive(MIN_GAMES_SETTING)
    """Games per generation."""
    games_per_group: int = declare_positive("selfplay.games_per_group")
    """Games that are played side by side; their random draws depend on the group."""
    start: str = declare_text("model.start")
    """The player of the first generation: the noise model, or a checkpoint."""
    pass_last: bool = declare_flag("search.pass_last")
    """Do not fill simple eyes, and pass only if no other move is left."""
    selfplay_settings: PlayerSettings = declare_field(build_selfplay_settings)
    window: int = declare_positive("window_size")
    """Number of generations to learn from."""
    examples: int = declare_positive("training.examples_per_generation")
    """Number of positions, drawn from the window, that the steps of a generation learn from."""
    batch_size: int = declare_positive("train_batch_size")
    rates: tuple[float, ...] = declare_numbers("lr_rates")
    boundaries: tuple[float, ...] = declare_numbers("lr_boundaries")
    momentum: float = declare_number("sgd.momentum")
    weight_decay: float = declare_number("opt_weight_decay")
    value_weight: float = declare_number("loss.value_weight")
    opponent: str = declare_text("eval.opponent")
    eval_games: int = declare_positive("eval_games")
    eval_games_per_group: int = declare_positive("eval.games_per_group")
    evaluated_settings: PlayerSettings = declare_evaluated_player(
        "eval.readouts", "eval.soft_moves"
    )
    opponent_settings: PlayerSettings = declare_evaluated_player(
        "eval.opponent_readouts", "eval.opponent_soft_moves"
    )
    workers: int = declare_integer("data.workers")
    shuffle_labels: bool = declare_flag("data.shuffle_labels")

    def __post_init__(self) -> None:
        if (
            self.games % self.games_per_group
            or self.eval_games % self.eval_games_per_group
            or self.eval_games_per_group % 2
        ):
            raise RequestError(
                "games per generation must be a multiple of selfplay's group size, and eval_games "
                "of eval's, which must be even"
            )
        if len(self.rates) != len(self.boundaries) + 1:
            raise RequestError(
                f"lr_rates has {len(self.rates)} rates and lr_boundaries {len(self.boundaries)}"
                " steps; there must be one rate more than steps"
            )

    @property
    def group_count(self) -> int:
        """Number of groups of games per generation."""
        return self.games // self.games_per_group

    @property
    def step_count(self) -> int:
        """Number of optimizer steps per generation; the last one may be smaller."""
        return -(-self.examples // self.batch_size)

    def count_step_samples(self, step: int) -> int:
        """Return the number of positions in a step of a generation, counted from 0."""
        return min(self.batch_size, self.examples - step * self.batch_size)

    def compute_rate(self, step: int) -> float:
        """Return the learning rate of a step of the run, counted from 0."""
        return self.rates[sum(step >= boundary for boundary in self.boundaries)]
