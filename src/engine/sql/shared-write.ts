/**
 * The same query of constants, asked by several requests of a project in one turn of the event loop, goes out in one write.
 * Pools and monitors ask `SELECT 1` all the time: to wake a backend for each, and to be woken by it, costs many times what
 * the query does. No request waits for another: what is alone in its turn goes its own way, at the turn's end.
 */
import { EngineError } from '../../contract/errors.js';
import { runRepeatedly } from '../../postgres/wire/repeated-query.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { RowMode } from '../../postgres/results/rows.js';
import { type Clock, queryTimeout } from '../admission/deadline.js';
import { STAYS } from '../admission/departure.js';
import type { Project } from '../project.js';
import type { KnownStatement } from './known-statements.js';
import { type Outcome, runKnown } from './one-write.js';
import { type CollectRequest, sqlResult } from './sql-result.js';
import { WholeRows } from './whole-rows.js';

/** Requests of one write. */
const MOST = 100;

/**
 * What goes out at the end of this turn. A map that is cleared keeps its next contents reachable from the last ones, which
 * V8's collections of young objects then all take for alive: each turn has its own.
 */
let leaving = new Map<KnownStatement, SharedWrite>();

/** As {@link runKnown}, which it is for everything but queries of constants. */
export function runSharing(project: Project, known: KnownStatement, request: CollectRequest): Promise<Outcome> {
  if (!mayShare(project, known, request)) return runKnown(project, known, request);
  const write = leaving.get(known);
  if (write?.takes(request) === false) return runKnown(project, known, request);
  if (write !== undefined) return write.join(request);
  if (leaving.size === 0) setImmediate(letGo);
  const begun = new SharedWrite(project, known, request);
  leaving.set(known, begun);
  return begun.join(request);
}

/** A request with a trace has spans of its own. */
const mayShare = ({ trace }: Project, { staysParsed }: KnownStatement, { params }: CollectRequest): boolean =>
  staysParsed && params.length === 0 && trace === null;

function letGo(): void {
  const writes = leaving;
  leaving = new Map();
  for (const write of writes.values()) write.letGo();
}

/** Requests of one project, since that is whose statement it is. */
class SharedWrite {
  private readonly forms: Form[] = [];
  private size = 0;

  constructor(
    private readonly project: Project,
    private readonly known: KnownStatement,
    /** The one that came first, and whose limits are those of all. */
    private readonly request: CollectRequest,
  ) {}

  /** What becomes of the time of one is true of all. */
  takes({ timeoutMs }: CollectRequest): boolean {
    return this.size < MOST && this.request.timeoutMs === timeoutMs;
  }

  join({ rowMode, maxRows }: CollectRequest): Promise<Outcome> {
    this.size++;
    const form = this.forms.find((other) => other.rowMode === rowMode && other.maxRows === maxRows);
    if (form !== undefined) return form.again();
    const first = new Form(rowMode, maxRows);
    this.forms.push(first);
    return first.outcome;
  }

  letGo(): void {
    const { forms, project, known, request } = this;
    const [form] = forms as [Form];
    if (this.size === 1) form.resolve(runKnown(project, known, request));
    else void this.share();
  }

  private async share(): Promise<void> {
    const { forms } = this;
    try {
      const outcomes = await this.runTogether();
      forms.forEach(({ resolve }, i) => resolve(outcomes[i] ?? 'not run'));
    } catch (error) {
      const isRefused = error instanceof EngineError && error.postgres !== undefined;
      for (const { resolve, reject } of forms) {
        if (isRefused) resolve('not run');
        else reject(error);
      }
    }
  }

  /** @throws EngineError as {@link runKnown} */
  private runTogether(): Promise<Outcome[]> {
    const { forms, project, known } = this;
    const { readOnly, timeoutMs } = this.request;
    // Nobody's leaving undoes what others wait for.
    const deadline = { timeoutMs, signal: STAYS, expired: queryTimeout(timeoutMs) };
    const work = async ({ session }: Lease, clock: Clock): Promise<Outcome[]> => {
      const runs = forms.map(({ rowMode, maxRows, times }) => {
        return { maxRows: maxRows + 1, times, sink: new WholeRows(known, rowMode, maxRows, clock) };
      });
      const tags = await runRepeatedly(session, known, known.unbound, runs);
      return runs.map(({ sink, times }, i) => outcomeOf(known, sink, tags[i] ?? null, times));
    };
    return project.use(readOnly ? 'sql-read' : 'sql-write', deadline, work, 'none');
  }
}

/** A form of the answer. What Postgres says to the first of those who want it is the outcome of all of them. */
class Form {
  times = 1;
  readonly outcome: Promise<Outcome>;
  resolve!: (outcome: Outcome | Promise<Outcome>) => void;
  reject!: (error: unknown) => void;

  constructor(
    readonly rowMode: RowMode,
    readonly maxRows: number,
  ) {
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  again(): Promise<Outcome> {
    this.times++;
    return this.outcome;
  }
}

function outcomeOf(
  known: KnownStatement,
  { columns, collector }: WholeRows,
  tag: string | null,
  times: number,
): Outcome {
  if (columns !== known.columns || collector === null) return 'not run';
  const { bytes } = collector;
  known.answerBytes = bytes.length;
  if (times > 1) bytes.share();
  return sqlResult(known.text, tag, collector, known.columnsJson);
}
