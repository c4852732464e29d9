"""The settings of a run as typed records, with their log names; imports no framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.rounds import HyperValue
from workloads.common.setting_values import (
    Settings,
    require_flag_setting,
    require_integer_setting,
    require_number_setting,
    require_numbers_setting,
    require_positive_setting,
    require_text_setting,
)
from workloads.minigo.go.board import MAX_BOARD_SIDE, MIN_BOARD_SIDE
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.features import SHOWN_POSITIONS_BY_PLANES
from workloads.minigo.go.games import PlayerSettings

AREA_PLAYER, CHECKPOINT_PLAYER, NOISE_PLAYER = "area", "checkpoint", "noise"
DIRICHLET_ALPHA_TIMES_POINTS: Final = (
    0.03 * 361
)  # mlcommons/training v0.6, minigo, cc/mcts_player.cc: Dirichlet alpha 0.03 * 361 / points
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
    found = {key: settings[key] for key in MINIGO_LOGGED_HYPERPARAMETERS if key in settings}
    return found | (
        {"actual_selfplay_games_per_generation": settings[MIN_GAMES_SETTING]}
        if MIN_GAMES_SETTING in settings
        else {}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniGoRecipe:
    """How a run plays, learns and is evaluated."""

    board: int
    rules: GameRules
    planes: int
    filters: int
    blocks: int
    hidden: int
    games: int
    """Games per generation."""
    games_per_group: int
    """Games that are played side by side; their random draws depend on the group."""
    start: str
    """The player of the first generation: the noise model, or a checkpoint."""
    pass_last: bool
    """Do not fill simple eyes, and pass only if no other move is left."""
    selfplay_settings: PlayerSettings
    window: int
    """Number of generations to learn from."""
    examples: int
    """Number of positions, drawn from the window, that the steps of a generation learn from."""
    batch_size: int
    rates: tuple[float, ...]
    boundaries: tuple[float, ...]
    momentum: float
    weight_decay: float
    value_weight: float
    opponent: str
    eval_games: int
    eval_games_per_group: int
    evaluated_settings: PlayerSettings
    opponent_settings: PlayerSettings
    workers: int
    shuffle_labels: bool

    @classmethod
    def build_from_settings(cls, settings: Settings) -> "MiniGoRecipe":
        """Read the settings; RequestError names an invalid one."""
        board = require_board_side(settings)
        readouts, penalty = (
            require_positive_setting(settings, "eval.readouts"),
            require_number_setting(settings, "value_init_penalty"),
        )
        recipe = cls(
            board=board,
            rules=build_game_rules(settings),
            planes=require_plane_count(settings),
            filters=require_positive_setting(settings, "model.filters"),
            blocks=require_integer_setting(settings, "model.blocks"),
            hidden=require_positive_setting(settings, "model.hidden"),
            games=require_positive_setting(settings, MIN_GAMES_SETTING),
            games_per_group=require_positive_setting(settings, "selfplay.games_per_group"),
            start=require_text_setting(settings, "model.start"),
            pass_last=require_flag_setting(settings, "search.pass_last"),
            selfplay_settings=build_selfplay_settings(settings, board),
            window=require_positive_setting(settings, "window_size"),
            examples=require_positive_setting(settings, "training.examples_per_generation"),
            batch_size=require_positive_setting(settings, "train_batch_size"),
            rates=require_numbers_setting(settings, "lr_rates"),
            boundaries=require_numbers_setting(settings, "lr_boundaries"),
            momentum=require_number_setting(settings, "sgd.momentum"),
            weight_decay=require_number_setting(settings, "opt_weight_decay"),
            value_weight=require_number_setting(settings, "loss.value_weight"),
            opponent=require_text_setting(settings, "eval.opponent"),
            eval_games=require_positive_setting(settings, "eval_games"),
            eval_games_per_group=require_positive_setting(settings, "eval.games_per_group"),
            evaluated_settings=PlayerSettings(
                readouts=readouts,
                penalty=penalty,
                soft_moves=require_integer_setting(settings, "eval.soft_moves"),
            ),
            opponent_settings=PlayerSettings(
                readouts=require_positive_setting(settings, "eval.opponent_readouts"),
                penalty=penalty,
                soft_moves=require_integer_setting(settings, "eval.opponent_soft_moves"),
            ),
            workers=require_integer_setting(settings, "data.workers"),
            shuffle_labels=require_flag_setting(settings, "data.shuffle_labels"),
        )
        recipe.check_consistency()
        return recipe

    def check_consistency(self) -> None:
        """Raise RequestError for inconsistent settings."""
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


def build_selfplay_settings(settings: Settings, board: int) -> PlayerSettings:
    """Return the settings of self-play."""
    return PlayerSettings(
        readouts=require_positive_setting(settings, "num_readouts"),
        readouts_at_once=require_positive_setting(settings, "virtual_losses"),
        penalty=require_number_setting(settings, "value_init_penalty"),
        soft_moves=require_integer_setting(settings, "selfplay.soft_moves"),
        noise_alpha=DIRICHLET_ALPHA_TIMES_POINTS / board**2,
        noise_share=require_number_setting(settings, "selfplay.noise_share"),
        resign_below=require_number_setting(settings, "resign_threshold"),
        never_resign_share=require_number_setting(settings, "disable_resign_pct"),
        prune_noise_visits=require_flag_setting(settings, "selfplay.target_pruning"),
    )
