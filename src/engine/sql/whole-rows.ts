/**
 * Takes the rows of a known statement, which were asked for before Postgres has said what its columns are now
 * (docs/decisions/0024-one-write.md).
 */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { MessageTooLarge } from '../../postgres/errors.js';
import type { ResultColumn } from '../../postgres/results/columns.js';
import { jsonRowEncoder, type RowMode } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import { messageSize, type RowTaker } from '../../postgres/wire/framing.js';
import type { WholeSink } from '../../postgres/wire/one-write.js';
import type { Clock } from '../admission/deadline.js';
import type { KnownStatement } from './known-statements.js';
import { SMALL_ANSWER } from './one-write-eligibility.js';
import { RowCollector } from './row-collector.js';

/** Bytes of rows as they come, or as JSON: an answer that has become so large is stopped, and taken in steps. */
const OUTGROWN_BYTES = 2 * SMALL_ANSWER;

/** Room for rows beyond those of the last time. */
const FIRST_BYTES = 1024;

/** The answer has become so large that Postgres was stopped. Whether nothing was done shows at how the statement ended. */
export class Outgrown extends EngineError {
  constructor() {
    super('internal', 'The result of a statement has outgrown its one write');
  }
}

/** Takes the rows in the formats that were asked for, if these are right for the columns that there are now. */
export class WholeRows implements WholeSink {
  /** null where no rows come back. */
  columns: readonly ResultColumn[] | null = null;
  collector: RowCollector | null = null;
  areReadable = true;
  tooLong: MessageTooLarge | null = null;
  private received = 0;
  private isOutgrown = false;

  constructor(
    private readonly known: KnownStatement,
    private readonly rowMode: RowMode,
    private readonly maxRows: number,
    private readonly clock: Clock,
  ) {}

  describe(buffer: Buffer, start: number, end: number): void {
    const { known, rowMode, maxRows } = this;
    this.columns = known.columnsNow(buffer, start, end);
    this.areReadable =
      this.columns === known.columns ||
      this.columns.every(({ typeOid }, i) => resultFormat(typeOid) === known.formatOf(i));
    const encoder =
      this.columns === known.columns ? known.encoder(rowMode) : jsonRowEncoder(this.columns, rowMode, 'list');
    this.collector = new RowCollector(encoder, maxRows, LIMITS.resultBytes, FIRST_BYTES + known.answerBytes);
  }

  readonly takeRows: RowTaker = (buffer, start, end) => {
    const behind = this.collect(buffer, start, end);
    this.received += behind - start;
    // It may all have come by the time that this takes effect; then it is an answer like any other.
    if (!this.isOutgrown && Math.max(this.received, this.collector?.bytes.length ?? 0) > OUTGROWN_BYTES) {
      this.isOutgrown = true;
      this.clock.stop(new Outgrown(), 'outgrown');
    }
    return behind;
  };

  private collect(buffer: Buffer, start: number, end: number): number {
    if (this.areReadable && this.tooLong === null && this.collector !== null) {
      try {
        return this.collector.takeRows(buffer, start, end);
      } catch (error) {
        // Thrown on, it would end the connection with the commit on its way.
        if (!(error instanceof MessageTooLarge)) throw error;
        this.tooLong = error;
      }
    }
    return start + messageSize(buffer, start);
  }
}
