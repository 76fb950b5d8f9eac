-- TEXT becomes FLOAT or TIMESTAMP only if nothing is rounded: 002_conversions.sql rounded it, as an insert does.

-- The significant digits and the exponent of a decimal number other than zero, without its sign: '12e-1' for '-01.20'.
-- As text, because numeric has neither every number of digits nor every exponent.
CREATE FUNCTION _cdp.decimal_digits(value text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (
    SELECT rtrim(digits, '0') || 'e'
      || (exponent - octet_length(fraction) + octet_length(digits) - octet_length(rtrim(digits, '0')))
    FROM (SELECT ltrim(lower(value COLLATE "C"), '-') AS number) AS unsigned,
    LATERAL (SELECT split_part(number, 'e', 1) AS mantissa,
      coalesce(nullif(split_part(number, 'e', 2), ''), '0')::numeric AS exponent) AS parts,
    LATERAL (SELECT split_part(mantissa, '.', 2) AS fraction, ltrim(replace(mantissa, '.', ''), '0') AS digits) AS rest);

-- The double, if its shortest digits are the number that was read.
CREATE FUNCTION _cdp.if_not_rounded(parsed double precision, value text) RETURNS double precision
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE
    WHEN parsed IN (0, 'NaN', 'Infinity', '-Infinity') THEN parsed
    WHEN _cdp.decimal_digits(_cdp.float_to_text(parsed)) = _cdp.decimal_digits(value) COLLATE "C" THEN parsed END;

CREATE OR REPLACE FUNCTION _cdp.text_to_float(value text) RETURNS double precision
  LANGUAGE sql IMMUTABLE
  RETURN CASE
    WHEN octet_length(value) > 10485760 THEN NULL
    WHEN value COLLATE "C" ~ '^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity)$'
      THEN _cdp.if_not_rounded(_cdp.parse_float(value), value) END;

-- '-000043-03-15T00:00:00Z', as responses have years beyond RFC 3339, for Postgres. A session may define a time zone BC,
-- so years before Christ are 4,800 later, where the calendar is the same: '4757-03-15 00:00:00+00'.
CREATE FUNCTION _cdp.expanded_timestamp_for_postgres(value text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (
    SELECT lpad(year, greatest(octet_length(year), 4), '0') || substr(value, 8, 6) || ' ' || rtrim(substr(value, 15), 'Z') || '+00'
    FROM (SELECT (left(value, 7)::integer + CASE left(value, 1) WHEN '-' THEN 4800 ELSE 0 END)::text AS year) AS shown);

CREATE OR REPLACE FUNCTION _cdp.text_to_timestamp(value text) RETURNS timestamptz
  LANGUAGE sql STABLE
  RETURN CASE
    WHEN octet_length(value) > 10485760 THEN NULL
    WHEN value COLLATE "C" ~ '^(?!-000000)[+-]\d{6}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z$'
      THEN CASE
        WHEN (left(value, 7)::integer, substr(value, 9, 5) COLLATE "C") < (-4713, '11-24') THEN NULL -- before Postgres's first
        ELSE _cdp.parse_timestamp(_cdp.expanded_timestamp_for_postgres(value), false)
          - CASE left(value, 1) WHEN '-' THEN interval '42075936 hours' ELSE interval '0' END END
    WHEN value COLLATE "C" ~ '\.\d{6}\d*[1-9]' THEN NULL -- beyond microseconds
    WHEN value COLLATE "C" ~ (
      '^\d{4}-\d\d-\d\d(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d(?:\.\d+)?|60(?:\.0+)?)'
      || '(?:[Zz]|[+-](?:0\d|1[0-5]):[0-5]\d)?)?$')
      THEN _cdp.parse_timestamp(_cdp.timestamp_for_postgres(value), substr(value, 18, 2) = '60')
        - CASE left(value, 4) WHEN '0000' THEN interval '3506328 hours' ELSE interval '0' END END;
