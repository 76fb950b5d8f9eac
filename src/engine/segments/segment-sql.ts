/**
 * The SQL that makes the members of a segment those keys that its query yields. It is one transaction, as free SQL, so the members and
 * the changes are those of one moment.
 */
import { ident, literal } from '../../pg/index.js';

/** The tables of all segments of a project, in the schema of its API. A `key` is often an identifier of somebody. */
export const SEGMENT_TABLES: readonly string[] = ['segment_members', 'segment_changes'];

interface SegmentRun {
  /** Where the project's tables are. */
  readonly schema: string;
  readonly segment: string;
  /** One query with a column `key`. */
  readonly query: string;
  readonly runId: string;
  /** The most percent of the members that may change; null: any number. */
  readonly maxChange: number | null;
}

/** The last statement affects as many rows as there are changes. */
export function segmentSql({ schema, segment, query, runId, maxChange }: SegmentRun): string {
  const members = `${ident(schema).text}.segment_members`;
  const changes = `${ident(schema).text}.segment_changes`;
  const name = literal(segment).text;
  const statements = [
    `CREATE TABLE IF NOT EXISTS ${members} (segment text NOT NULL, key text NOT NULL, entered_at timestamptz NOT NULL DEFAULT now(),
       PRIMARY KEY (segment, key))`,
    `CREATE TABLE IF NOT EXISTS ${changes} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, segment text NOT NULL, run_id uuid NOT NULL,
       key text NOT NULL, change text NOT NULL CHECK (change IN ('entered', 'left')), at timestamptz NOT NULL DEFAULT now())`,
    // The query ends with a line of its own: it may end with a comment.
    `CREATE TEMPORARY TABLE _segment_changes ON COMMIT DROP AS
       SELECT key, member IS NULL AS enters
       FROM (SELECT DISTINCT key::text AS key FROM (\n${query}\n) AS result WHERE key IS NOT NULL) AS yielded
         FULL JOIN (SELECT key, true AS member FROM ${members} WHERE segment = ${name}) AS present USING (key)
       WHERE member IS NULL OR yielded.key IS NULL`,
    ...(maxChange === null ? [] : [guard(members, name, maxChange)]),
    `DELETE FROM ${members} m USING pg_temp._segment_changes c WHERE m.segment = ${name} AND m.key = c.key AND NOT c.enters`,
    `INSERT INTO ${members} (segment, key) SELECT ${name}, key FROM pg_temp._segment_changes WHERE enters`,
    `INSERT INTO ${changes} (segment, run_id, key, change)
       SELECT ${name}, ${literal(runId).text}::uuid, key, CASE WHEN enters THEN 'entered' ELSE 'left' END FROM pg_temp._segment_changes`,
  ];
  return statements.join(';\n');
}

/** Ends the transaction if too many change. */
function guard(members: string, name: string, maxChange: number): string {
  return `DO $guard$ DECLARE present bigint; entering bigint; leaving bigint;
    BEGIN
      SELECT count(*) INTO present FROM ${members} WHERE segment = ${name};
      SELECT count(*) FILTER (WHERE enters), count(*) FILTER (WHERE NOT enters) INTO entering, leaving FROM pg_temp._segment_changes;
      IF present > 0 AND entering + leaving > present * ${maxChange} / 100.0 THEN
        RAISE EXCEPTION 'Of % members % would leave and % enter, more than max_change (${maxChange} %%) allows', present, leaving, entering
          USING HINT = 'If that is right, run it with force=true.';
      END IF;
    END $guard$`;
}

/** Lets nobody be a member any more; what changed before stays in the table of changes. */
export function withoutMembers(schema: string, segment: string): string {
  const members = `${ident(schema).text}.segment_members`;
  return `DO $gone$ BEGIN
    IF to_regclass(${literal(members).text}) IS NOT NULL THEN DELETE FROM ${members} WHERE segment = ${literal(segment).text}; END IF;
  END $gone$`;
}

/** The members of the segment `$1`, by key. @param hasRun the first run of a segment makes the table */
export function membersSql(schema: string, hasRun: boolean): string {
  const none = '(SELECT NULL::text AS segment, NULL::text AS key, NULL::timestamptz AS entered_at WHERE false) AS none';
  const from = hasRun ? ident(schema, 'segment_members').text : none;
  return `SELECT key, entered_at FROM ${from} WHERE segment = $1 ORDER BY key`;
}
