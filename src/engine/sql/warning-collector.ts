/** The warnings of Postgres about a request, for whoever sent it. A statement can raise any number, of any length. */
import { LIMITS } from '../../contract/limits.js';
import { counted, cut } from '../../contract/message-text.js';
import type { Warning } from '../../contract/wire/sql.js';
import type { PostgresError } from '../../pg/index.js';
import { warningOf } from '../../tenancy/postgres-errors.js';

/** SQLSTATE of a warning that has no other. */
const WARNING = '01000';

export class WarningCollector {
  private readonly kept: Warning[] = [];
  private leftOut = 0;

  readonly take = (read: () => PostgresError): void => {
    if (this.kept.length === LIMITS.warnings) {
      this.leftOut++;
      return;
    }
    const warning = warningOf(read());
    if (warning !== null) this.kept.push(shortened(warning));
  };

  /** The last one says how many there were besides. */
  get all(): readonly Warning[] {
    if (this.leftOut === 0) return this.kept;
    return [...this.kept, { code: WARNING, message: `${counted(this.leftOut, 'more warning')} left out` }];
  }
}

const shortened = ({ code, ...texts }: Warning): Warning => ({
  code,
  ...(Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, cut(text, LIMITS.warningCharacters)]),
  ) as Omit<Warning, 'code'>),
});
