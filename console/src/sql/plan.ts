/** Reads a plan from `EXPLAIN (FORMAT JSON)` (Postgres manual, EXPLAIN) and extracts what people want to know. */

export interface PlanNode {
  readonly title: string;
  /** What the step works on, and its conditions. */
  readonly details: readonly string[];
  readonly estimatedRows: number;
  /** The total of all loops, if the plan was executed. */
  readonly actualRows: number | undefined;
  /** Milliseconds if the plan was executed, otherwise Postgres's units of cost; without the children. */
  readonly own: number;
  /** The part of `own` in the whole plan, 0 to 1. */
  readonly share: number;
  readonly hints: readonly string[];
  readonly children: readonly PlanNode[];
}

export interface QueryPlan {
  readonly root: PlanNode;
  readonly isTimed: boolean;
  readonly total: number;
}

type Raw = Record<string, unknown> & { Plans?: Raw[] };

/** undefined if the text is not such a plan. */
export function readPlan(text: string): QueryPlan | undefined {
  try {
    const [first] = JSON.parse(text) as { Plan?: Raw }[];
    const raw = first?.Plan;
    if (raw === undefined) return undefined;
    const total = amount(raw, 1);
    return { root: nodeOf(raw, total, 1), isTimed: raw['Actual Total Time'] !== undefined, total };
  } catch {
    return undefined;
  }
}

const number = (value: unknown): number => (typeof value === 'number' ? value : 0);

const text = (value: unknown): string =>
  typeof value === 'string' ? value : Array.isArray(value) ? value.join(', ') : '';

/**
 * The amount including children: time over all loops, otherwise cost. Below a Gather, Postgres adds up the loops of all
 * processes, which run in parallel.
 */
const amount = (raw: Raw, processes: number): number =>
  raw['Actual Total Time'] === undefined
    ? number(raw['Total Cost'])
    : (number(raw['Actual Total Time']) * Math.max(1, number(raw['Actual Loops']))) / processes;

/** @param processes the number of processes that execute the step in parallel */
function nodeOf(raw: Raw, total: number, processes: number): PlanNode {
  const children = raw.Plans ?? [];
  const launched = raw['Workers Launched'];
  const below = launched === undefined ? processes : number(launched) + 1;
  const ofChildren = children.reduce((sum, child) => sum + amount(child, below), 0);
  const own = Math.max(0, amount(raw, processes) - ofChildren);
  const loops = number(raw['Actual Loops']);
  const actualRows = raw['Actual Rows'] === undefined ? undefined : Math.round(number(raw['Actual Rows']) * loops);
  const estimatedRows = number(raw['Plan Rows']);
  const share = total === 0 ? 0 : Math.min(1, own / total);
  return {
    title: titleOf(raw),
    details: detailsOf(raw),
    estimatedRows,
    actualRows,
    own,
    share,
    hints: hintsOf(raw, estimatedRows * Math.max(1, loops), actualRows),
    children: children.map((child) => nodeOf(child, total, below)),
  };
}

function titleOf(raw: Raw): string {
  const join = text(raw['Join Type']);
  const kind = text(raw['Node Type']);
  const name = join === '' || join === 'Inner' ? kind : kind.replace(/ ?(Join|Loop)$/, ` ${join} $1`);
  const on = text(raw['Relation Name']) || text(raw['CTE Name']) || text(raw['Function Name']);
  const alias = text(raw.Alias);
  return [name, on && `on ${on}`, alias !== '' && alias !== on && on !== '' ? `as ${alias}` : '']
    .filter(Boolean)
    .join(' ');
}

const SHOWN = [
  ['Index Name', 'index'],
  ['Index Cond', 'where'],
  ['Recheck Cond', 'recheck'],
  ['Hash Cond', 'on'],
  ['Merge Cond', 'on'],
  ['Join Filter', 'join filter'],
  ['Filter', 'filter'],
  ['Sort Key', 'by'],
  ['Group Key', 'by'],
  ['One-Time Filter', 'if'],
] as const;

const detailsOf = (raw: Raw): string[] =>
  SHOWN.flatMap(([key, word]) => (raw[key] === undefined ? [] : [`${word} ${text(raw[key])}`]));

const MUCH = 1_000;

function hintsOf(raw: Raw, estimated: number, actual: number | undefined): string[] {
  const hints: string[] = [];
  const removed = number(raw['Rows Removed by Filter']) * Math.max(1, number(raw['Actual Loops']));
  if (text(raw['Node Type']) === 'Seq Scan' && removed > MUCH && removed > 10 * (actual ?? 0))
    hints.push('Most rows were read and dropped: an index on the filtered columns may help.');
  if (actual !== undefined && Math.max(actual, estimated) > MUCH) {
    const factor = Math.max(actual, 1) / Math.max(estimated, 1);
    if (factor > 10 || factor < 0.1) hints.push('The estimate is far off: ANALYZE the table.');
  }
  if (text(raw['Sort Space Type']) === 'Disk') hints.push('It did not fit into memory and was sorted on disk.');
  return hints;
}
