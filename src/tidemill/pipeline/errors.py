"""What can go wrong with a pipeline, grouped by what its user can do about it.

PipelineError
├─ Refused             the query cannot be kept incrementally; says the construct and what to write instead
│  └─ UnsupportedType  a column has a type that cannot be kept
├─ BadInput            the rows of an append do not fit their table; nothing was appended
├─ AppendFailed        the machinery failed to stage an append: a job, a disk; nothing was appended
├─ SequenceGap         a producer's sequence number is not the next one; nothing was appended
├─ StepAborted         the data of a step made it fail; recorded, the views are as they were
├─ StepFailed          the machinery failed a step: its job, disk or deadline; step again
│  └─ SparkGone        Spark's own process has ended; open the pipeline again in a new process
├─ NotNow              the pipeline runs by itself, or does not, or is in mid-step: pause or start it first
├─ NotOpen             the pipeline is closed, or was taken over by another owner
├─ AlreadyOpen         another process has the folder open
├─ WrongSettings       the session has settings under which the answers would be others
├─ ForeignState        the folder holds no pipeline, another's, or one of a newer release
├─ NoSuchName          no table, view or append of that name
├─ NameTaken           a table or view of that name exists
└─ Forgotten           the step that was asked for is no longer kept
"""

from dataclasses import dataclass

from tidemill.base.errors import TidemillError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands in a text; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class PipelineError(TidemillError):
    """The pipeline could not do what was asked.

    What is wrong with a text of SQL has its `place` there, where that is known, and the `file` it was read
    from. The message starts with them: `FILE:LINE:COLUMN: what`, or `line 1, column 8: what`.
    """

    code = "pipeline"

    def __init__(self, message: str = "", *, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.file: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        if self.file is None:
            return message if self.place is None else f"{self.place}: {message}"
        where = "" if self.place is None else f":{self.place.line}:{self.place.column}"
        return f"{self.file}{where}: {message}"

    def happened_in(self, what: str, place: Place | None) -> None:
        """Put into the message in what it happened; and where, unless it knows better."""
        self.args = (f"{what}: {self.args[0]}",)
        self.place = self.place or place


class Refused(PipelineError):
    """The construct cannot be maintained incrementally. Nothing was created."""

    code = "pipeline.refused"


class UnsupportedType(Refused):
    """A column has a type that cannot be kept. Nothing was created."""

    code = "pipeline.unsupported_type"


class BadInput(PipelineError):
    """The rows do not fit the table. Nothing was appended."""

    code = "pipeline.bad_input"


class AppendFailed(PipelineError):
    """The machinery failed while the rows were staged, not the rows. Nothing was appended; try again."""

    code = "pipeline.append_failed"


class SequenceGap(PipelineError):
    """The producer skipped a number, or repeats one that is no longer remembered. Nothing was appended."""

    code = "pipeline.sequence_gap"


class StepAborted(PipelineError):
    """The data made the step fail, and would do so again.

    The step is recorded as aborted and the views are as they were. `offsets` are the appends in the step:
    they stay pending until the cause is removed or they are discarded. `view` and `operator` say where.
    """

    code = "pipeline.step_aborted"

    def __init__(
        self,
        message: str,
        *,
        view: str = "",
        operator: str = "",
        step: int = -1,
        offsets: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.view = view
        self.operator = operator
        self.node = -1
        self.step = step
        self.offsets = offsets

    def tell(self, *, filling: bool) -> None:
        """Put into the message where it happened and what can be done about it."""
        where = "".join(
            f", {part}" for part in (f"view {self.view}" if self.view else "", self.operator) if part
        )
        if filling:
            remedy = "the view is new and could not be filled; drop it, or mend or discard the rows below it"
        elif self.offsets:
            which = ", ".join(map(str, self.offsets[:5])) + (", …" if len(self.offsets) > 5 else "")
            remedy = f"appends {which} stay pending; discard(offset) lets the others pass"
        else:
            remedy = "there were no appends in it"
        self.args = (f"{self.args[0]} (step {self.step}{where}: {remedy})",)


class StepFailed(PipelineError):
    """The machinery failed the step, not its data. The views are as they were; step again to retry."""

    code = "pipeline.step_failed"


class SparkGone(StepFailed):
    """Spark's own process has ended, whatever was asked of it. Nothing was done.

    What needs no Spark, such as reading a view, still works. To go on, open the pipeline in a new process:
    PySpark starts Spark once in each.
    """

    code = "pipeline.spark_gone"


class NotNow(PipelineError):
    """Not while the pipeline runs by itself, not while it does not, or not in mid-step. Nothing was done."""

    code = "pipeline.not_now"


class NotOpen(PipelineError):
    """This object may not act on the pipeline: it was closed, or another owner took over."""

    code = "pipeline.not_open"


class AlreadyOpen(PipelineError):
    """Another process, or another object of this one, has the pipeline open."""

    code = "pipeline.already_open"


class WrongSettings(PipelineError):
    """The session's settings differ from those under which the pipeline was created."""

    code = "pipeline.wrong_settings"


class ForeignState(PipelineError):
    """The files are not those of this pipeline, or of a release that this one does not know."""

    code = "pipeline.foreign_state"


class NoSuchName(PipelineError):
    """There is no table, view or append of that name."""

    code = "pipeline.no_such_name"


class NameTaken(PipelineError):
    """A table or view of that name exists."""

    code = "pipeline.name_taken"


class Forgotten(PipelineError):
    """What was asked for was kept once and is not any more."""

    code = "pipeline.forgotten"
