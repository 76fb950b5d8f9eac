/**
 * The same query of constants, asked by several requests of a project in one turn of the event loop, goes out in one write.
 * Pools and monitors ask `SELECT 1` all the time: to wake a backend for each, and to be woken by it, costs many times what
 * the query does. No request waits for another: what is alone in its turn goes its own way, at the turn's end.
 */
import { EngineError } from '../../contract/errors.js';
import { runRepeatedly } from '../../postgres/wire/repeated-query.js';
import type { Lease } from '../../postgres/connections/connections.js';
import { type Clock, queryTimeout } from '../admission/deadline.js';
import { STAYS } from '../admission/departure.js';
import type { Project } from '../project.js';
import type { KnownStatement } from './known-statements.js';
import { type Repeat, runKnown, WholeRows } from './one-write.js';
import { type CollectRequest, type SqlResult, sqlResult } from './sql-result.js';

type Outcome = SqlResult | 'not run' | Repeat;

/** Of the same project, since that is whose statement it is. */
interface Member {
  readonly project: Project;
  readonly request: CollectRequest;
  readonly resolve: (outcome: Outcome | Promise<Outcome>) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests of one write. */
const MOST = 100;

/**
 * What goes out at the end of this turn. A map that is cleared keeps its next contents reachable from the last ones, which
 * V8's collections of young objects then all take for alive: each turn has its own.
 */
let leaving = new Map<KnownStatement, Member[]>();

/** As {@link runKnown}, which it is for everything but queries of constants. */
export function runSharing(project: Project, known: KnownStatement, request: CollectRequest): Promise<Outcome> {
  const others = leaving.get(known);
  const isAlone = others !== undefined && !mayJoin(request, others);
  if (isAlone || !mayShare(project, known, request)) return runKnown(project, known, request);
  return new Promise((resolve, reject) => {
    const member = { project, request, resolve, reject };
    if (others !== undefined) return void others.push(member);
    if (leaving.size === 0) setImmediate(letGo);
    leaving.set(known, [member]);
  });
}

/** A request with a trace has spans of its own. */
const mayShare = ({ trace }: Project, { staysParsed }: KnownStatement, { params }: CollectRequest): boolean =>
  staysParsed && params.length === 0 && trace === null;

/** What becomes of the time of one is true of all. */
const mayJoin = ({ timeoutMs }: CollectRequest, others: readonly Member[]): boolean =>
  others.length < MOST && others[0]?.request.timeoutMs === timeoutMs;

function letGo(): void {
  const groups = leaving;
  leaving = new Map();
  for (const [known, members] of groups) {
    const [first] = members as [Member];
    if (members.length === 1) first.resolve(runKnown(first.project, known, first.request));
    else void share(first, known, members);
  }
}

async function share({ project, request }: Member, known: KnownStatement, members: readonly Member[]): Promise<void> {
  try {
    const outcomes = await runTogether(project, request, known, members);
    members.forEach(({ resolve }, i) => resolve(outcomes[i] ?? 'not run'));
  } catch (error) {
    const isRefused = error instanceof EngineError && error.postgres !== undefined;
    for (const { resolve, reject } of members) {
      if (isRefused) resolve('not run');
      else reject(error);
    }
  }
}

/** @throws EngineError as {@link runKnown} */
function runTogether(
  project: Project,
  { readOnly, timeoutMs }: CollectRequest,
  known: KnownStatement,
  members: readonly Member[],
): Promise<Outcome[]> {
  // Nobody's leaving undoes what others wait for.
  const deadline = { timeoutMs, signal: STAYS, expired: queryTimeout(timeoutMs) };
  const work = async ({ session }: Lease, clock: Clock): Promise<Outcome[]> => {
    const runs = members.map(({ request }) => {
      return { maxRows: request.maxRows + 1, sink: new WholeRows(known, request, clock) };
    });
    const tags = await runRepeatedly(session, known, known.bound([]), runs);
    return runs.map(({ sink }, i) => outcomeOf(known, sink, tags[i] ?? null));
  };
  return project.use(readOnly ? 'sql-read' : 'sql-write', deadline, work, 'none');
}

function outcomeOf(known: KnownStatement, { columns, collector }: WholeRows, tag: string | null): Outcome {
  if (columns !== known.columns || collector === null) return 'not run';
  known.answerBytes = collector.bytes.length;
  return sqlResult(known.text, tag, collector, known.columnsJson);
}
