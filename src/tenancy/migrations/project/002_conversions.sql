-- The type changes of a column (docs/decisions/0005-type-changes.md): one function for each pair of types that converts,
-- named `<from>_to_<to>` after the types of the API. Each returns NULL if the value cannot be kept, and raises
-- no errors: a change of a column first counts the NULLs and then converts with the same function.
--
-- The project's code cannot replace anything here. SQL bodies are parsed now, while search_path is pg_catalog; what
-- plpgsql resolves at run time is either qualified or a cast, which does not depend on search_path. Results depend
-- neither on settings of the session nor on the column's collation (which may consider 'TRUE' equal to 'true'), because
-- SQL bodies parsed now do not inherit it. `COLLATE "C"` makes \d match only ASCII digits, or makes a comparison faster.

-- Values that only Postgres's parser can check. A block that catches errors cannot run in a parallel query before
-- Postgres 17, hence no PARALLEL SAFE. It catches only errors of the value (class 22, and 54: nested too deeply, too
-- large), never the cancellation of the statement.

CREATE FUNCTION _cdp.parse_float(value text) RETURNS double precision
  LANGUAGE plpgsql IMMUTABLE STRICT
AS $$
BEGIN
  RETURN CAST(value AS pg_catalog.float8); -- refuses 1e400, and 1e-400 too, which would become 0
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

-- Numbers.

CREATE FUNCTION _cdp.numeric_to_integer(value numeric) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN value BETWEEN -9223372036854775808 AND 9223372036854775807 AND value = trunc(value)
    THEN value::bigint END;

-- The shortest digits that read back as the same double, whatever extra_float_digits the session has.
CREATE FUNCTION _cdp.float_to_text(value double precision) RETURNS text
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
  SET extra_float_digits = 1
AS $$
BEGIN
  RETURN CAST(value AS pg_catalog.text);
END
$$;

-- Whether a finite double equals the number exactly, by its bits: mantissa times a power of two (IEEE 754, binary64).
CREATE FUNCTION _cdp.is_exactly(number numeric, value double precision) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (
    SELECT CASE WHEN exponent >= 0
      THEN abs(number) = mantissa * power(2::numeric, exponent)
      ELSE abs(number) * power(2::numeric, -exponent) = mantissa END
    FROM (SELECT ('x' || encode(float8send(abs(value)), 'hex'))::bit(64)::bigint AS bits) AS raw,
    LATERAL (SELECT
      greatest(bits >> 52, 1) - 1075 AS exponent,
      (bits & 4503599627370495) + CASE WHEN bits >> 52 = 0 THEN 0 ELSE 4503599627370496 END AS mantissa) AS parts);

-- The double, if its shortest digits or its exact value equal the number. Outside the two bounds the cast would raise an
-- error; the exact values of the smallest and the largest double are within them.
CREATE FUNCTION _cdp.numeric_to_float(value numeric) RETURNS double precision
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE
    WHEN value = 0 THEN 0
    WHEN abs(value) NOT BETWEEN 4.9e-324 AND 1.7976931348623158e308 THEN NULL
    WHEN _cdp.float_to_text(value::double precision)::numeric = value THEN value::double precision
    WHEN _cdp.is_exactly(value, value::double precision) THEN value::double precision END;

-- From TEXT, by the cell grammar of contract C5. Checks of the length keep values below the limits of the
-- regular expressions: no cell is longer than the 10 MiB of a body.

CREATE FUNCTION _cdp.text_to_integer(value text) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE
    WHEN octet_length(value) > 20 THEN NULL
    WHEN value COLLATE "C" ~ '^-?(0|[1-9][0-9]*)$' THEN _cdp.numeric_to_integer(value::numeric) END;

CREATE FUNCTION _cdp.text_to_float(value text) RETURNS double precision
  LANGUAGE sql IMMUTABLE
  RETURN CASE
    WHEN octet_length(value) > 10485760 THEN NULL
    WHEN value COLLATE "C" ~ '^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity)$'
      THEN _cdp.parse_float(value) END;

CREATE FUNCTION _cdp.text_to_boolean(value text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE value WHEN 'true' THEN true WHEN 'false' THEN false END;

-- TIMESTAMP has RFC 3339's grammar (section 5.6). The calendar is left to Postgres; text that it would read differently
-- under some setting, or not at all, is rewritten. T, Z and BC do not reach it: a session may have made them time zones.

-- Postgres reads 128 characters. 80 digits of a fraction are far more than affect how it rounds to microseconds.
CREATE FUNCTION _cdp.with_short_fraction(time_of_day text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(time_of_day) <= 80 THEN time_of_day
    ELSE regexp_replace(time_of_day COLLATE "C", '(\.\d{80})\d+', '\1') END;

-- Year 0000 is passed as year 0400: the calendar repeats after 400 years.
CREATE FUNCTION _cdp.timestamp_for_postgres(value text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE left(value, 4) WHEN '0000' THEN '0400' ELSE left(value, 4) END || substr(value, 5, 6)
    || CASE octet_length(value) WHEN 10 THEN ' 00:00+00' ELSE
      ' ' || rtrim(_cdp.with_short_fraction(substr(value, 12)), 'Zz')
      || CASE WHEN left(right(value, 6), 1) IN ('+', '-') THEN '' ELSE '+00' END END;

CREATE FUNCTION _cdp.only_midnight(value timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN extract(epoch FROM value) % 86400 = 0 THEN value END;

-- Second 60 is valid only at the end of a UTC day (RFC 3339 section 5.7) and is stored as the following midnight.
CREATE FUNCTION _cdp.parse_timestamp(value text, is_second_60 boolean) RETURNS timestamptz
  LANGUAGE plpgsql STABLE STRICT
AS $$
BEGIN
  IF is_second_60 THEN
    RETURN _cdp.only_midnight(CAST(value AS pg_catalog.timestamptz));
  END IF;
  RETURN CAST(value AS pg_catalog.timestamptz);
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$;

CREATE FUNCTION _cdp.text_to_timestamp(value text) RETURNS timestamptz
  LANGUAGE sql STABLE
  RETURN CASE
    WHEN octet_length(value) > 10485760 THEN NULL
    WHEN value COLLATE "C" ~ (
      '^\d{4}-\d\d-\d\d(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d(?:\.\d+)?|60(?:\.0+)?)'
      || '(?:[Zz]|[+-](?:0\d|1[0-5]):[0-5]\d)?)?$')
      THEN _cdp.parse_timestamp(_cdp.timestamp_for_postgres(value), substr(value, 18, 2) = '60')
        - CASE left(value, 4) WHEN '0000' THEN interval '3506328 hours' ELSE interval '0' END END;

-- JSON has a member for every colon outside its strings, and jsonb keeps one for each key: if the counts are equal, no
-- key was dropped. Without an escaped colon, strings contain the same colons on both sides and need not be removed. The
-- regular expressions can remove them up to 256 million characters.
CREATE FUNCTION _cdp.count_colons(value text) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN octet_length(value) - octet_length(replace(value, ':', ''));

CREATE FUNCTION _cdp.keeps_every_member(source text, parsed text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN strpos(source, '\u003a') = 0 AND strpos(source, '\u003A') = 0
    THEN _cdp.count_colons(source) = _cdp.count_colons(parsed)
    WHEN greatest(octet_length(source), octet_length(parsed)) > 104857600 THEN false
    ELSE _cdp.count_colons(regexp_replace(source, '"(?:[^"\\]|\\.)*"', '', 'g'))
       = _cdp.count_colons(regexp_replace(parsed, '"(?:[^"\\]|\\.)*"', '', 'g')) END;

-- Nested at most 5,000 levels deep, for which the stack of every supported Postgres is more than sufficient. A deeper
-- text has at least 10,000 bytes.
CREATE FUNCTION _cdp.without_loss(source text, parsed jsonb) RETURNS jsonb
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE
    WHEN octet_length(source) > 10000 AND jsonb_path_exists(parsed, 'strict $.**{5000}') THEN NULL
    WHEN _cdp.keeps_every_member(source, parsed::text) THEN parsed END;

CREATE FUNCTION _cdp.text_to_jsonb(value text) RETURNS jsonb
  LANGUAGE plpgsql IMMUTABLE STRICT
AS $$
BEGIN
  RETURN _cdp.without_loss(value, CAST(value AS pg_catalog.jsonb));
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN NULL;
END
$$;

-- From INTEGER.

CREATE FUNCTION _cdp.integer_to_text(value bigint) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::text;

-- 2^63 is the only double that a bigint can round to and that cannot be converted back.
CREATE FUNCTION _cdp.integer_to_float(value bigint) RETURNS double precision
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE
    WHEN value::double precision = 9223372036854775808::double precision THEN NULL
    WHEN value::double precision::bigint = value THEN value::double precision END;

CREATE FUNCTION _cdp.integer_to_boolean(value bigint) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE value WHEN 0 THEN false WHEN 1 THEN true END;

CREATE FUNCTION _cdp.integer_to_jsonb(value bigint) RETURNS jsonb
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::text::jsonb;

-- From FLOAT (float_to_text is above). NaN sorts above every number, so that the bounds refuse it.

CREATE FUNCTION _cdp.float_to_integer(value double precision) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN value >= -9223372036854775808::double precision AND value < 9223372036854775808::double precision
    AND value = trunc(value) THEN value::bigint END;

CREATE FUNCTION _cdp.float_to_jsonb(value double precision) RETURNS jsonb
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN value NOT IN ('NaN', 'Infinity', '-Infinity') THEN _cdp.float_to_text(value)::jsonb END;

-- From BOOLEAN.

CREATE FUNCTION _cdp.boolean_to_text(value boolean) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::text;

CREATE FUNCTION _cdp.boolean_to_integer(value boolean) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::integer::bigint;

CREATE FUNCTION _cdp.boolean_to_float(value boolean) RETURNS double precision
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::integer::double precision;

CREATE FUNCTION _cdp.boolean_to_jsonb(value boolean) RETURNS jsonb
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value::text::jsonb;

-- From TIMESTAMP, as in answers (docs/decisions/0004-result-encoding.md): RFC 3339 in UTC, years outside 0000 to 9999
-- with a sign and six digits. The zone is an interval because a session may have given the name UTC another meaning.

CREATE FUNCTION _cdp.iso_year(value timestamptz) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (
    SELECT CASE WHEN year BETWEEN 0 AND 9999 THEN lpad(year::text, 4, '0')
      ELSE CASE WHEN year < 0 THEN '-' ELSE '+' END || lpad(abs(year)::text, 6, '0') END
    FROM (SELECT extract(year FROM timezone(interval '0', value))::integer AS postgres_year) AS counted,
    LATERAL (SELECT postgres_year + CASE WHEN postgres_year < 0 THEN 1 ELSE 0 END AS year) AS with_year_0);

CREATE FUNCTION _cdp.timestamp_to_text(value timestamptz) RETURNS text
  LANGUAGE sql STABLE PARALLEL SAFE
  RETURN CASE WHEN isfinite(value) THEN
      CASE WHEN value >= '0001-01-01 00:00+00' AND value < '10000-01-01 00:00+00'
        THEN to_char(timezone(interval '0', value), 'YYYY') ELSE _cdp.iso_year(value) END
      || rtrim(rtrim(to_char(timezone(interval '0', value), '-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'
    ELSE value::text END;

CREATE FUNCTION _cdp.timestamp_to_jsonb(value timestamptz) RETURNS jsonb
  LANGUAGE sql STABLE PARALLEL SAFE
  RETURN to_jsonb(_cdp.timestamp_to_text(value));

-- From JSONB. JSON null becomes NULL.

CREATE FUNCTION _cdp.is_any_null(value jsonb) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN value IS NULL OR jsonb_typeof(value) = 'null';

CREATE FUNCTION _cdp.jsonb_to_text(value jsonb) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN jsonb_typeof(value) <> 'null' THEN value::text END;

CREATE FUNCTION _cdp.jsonb_to_integer(value jsonb) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN jsonb_typeof(value) = 'number' THEN _cdp.numeric_to_integer(value::numeric) END;

CREATE FUNCTION _cdp.jsonb_to_float(value jsonb) RETURNS double precision
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN jsonb_typeof(value) = 'number' THEN _cdp.numeric_to_float(value::numeric) END;

CREATE FUNCTION _cdp.jsonb_to_boolean(value jsonb) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN jsonb_typeof(value) = 'boolean' THEN value::boolean END;

CREATE FUNCTION _cdp.jsonb_to_timestamp(value jsonb) RETURNS timestamptz
  LANGUAGE sql STABLE
  RETURN CASE WHEN jsonb_typeof(value) = 'string' THEN _cdp.text_to_timestamp(value #>> '{}') END;

-- From a type that free SQL created: the text that answers show, which is what the type's output function writes.

CREATE FUNCTION _cdp.other_to_text(value anyelement) RETURNS text
  LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
  SET search_path = pg_catalog, pg_temp
  SET DateStyle = 'ISO, MDY'
  SET TimeZone = 'UTC'
  SET IntervalStyle = postgres
  SET extra_float_digits = 1
  SET bytea_output = hex
AS $$
BEGIN
  RETURN format('%s', value);
END
$$;
