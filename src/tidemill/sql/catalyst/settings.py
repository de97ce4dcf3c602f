"""The settings of a session under which a query gives its answers."""

from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import SparkSession

NAMES = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.session.collation.default",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.timestampType",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.groupByAliases",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.ansi.relationPrecedence",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled",
    "spark.sql.legacy.setopsPrecedence.enabled",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    "spark.sql.legacy.literal.pickMinimumPrecision",
    "spark.sql.legacy.integralDivide.returnBigint",
    "spark.sql.legacy.nullInEmptyListBehavior",
    "spark.sql.legacy.charVarcharAsString",
    "spark.sql.legacy.allowHashOnMapType",
    "spark.sql.legacy.raiseErrorWithoutErrorClass",
    "spark.sql.legacy.ctePrecedencePolicy",
    "spark.sql.legacy.statisticalAggregate",
    "spark.sql.legacy.allowParameterlessCount",
)


def settings(spark: SparkSession) -> dict[str, str]:
    """What the session says of each setting that changes answers; what Spark does not know is left out."""
    # With a default, Spark would check that against the setting's type.
    known = {name: _value(spark, name) for name in NAMES}
    return {name: value for name, value in known.items() if value is not None}


def _value(spark: SparkSession, name: str) -> str | None:
    try:
        return spark.conf.get(name)
    except SparkNoSuchElementException:
        return None
