/**
 * Tracks which prepared statements and portals of a client end a transaction: a client may parse a COMMIT in one group
 * of messages and execute it in a later one.
 */
import { SessionError } from '../engine/sessions/session-error.js';

/** Maximum number of names that are tracked. */
const MAX_NAMES = 1_000;

/**
 * Postgres cuts longer names at 63 bytes, and other characters depend on the encoding: Postgres might treat two
 * different names as the same.
 */
const NAME = /^[\x01-\x7f]{0,63}$/;

interface Names {
  readonly statements: Set<string>;
  readonly portals: Set<string>;
}

/** Each method throws SessionError for a name that Postgres might read differently. */
export class EndingNames {
  private names: Names = { statements: new Set(), portals: new Set() };
  /** The names at the beginning of this group. */
  private before: Names = this.names;

  /** @param ends whether the text of the statement ends a transaction */
  parse(statement: string, ends: boolean): void {
    require(statement);
    set(this.names.statements, statement, ends);
  }

  bind(portal: string, statement: string): void {
    require(portal, statement);
    set(this.names.portals, portal, this.names.statements.has(statement));
  }

  /** @returns whether this ends the transaction */
  execute(portal: string): boolean {
    require(portal);
    return this.names.portals.has(portal);
  }

  /**
   * @param hasFailed after an error, Postgres ignores the rest of the group, so a name may have kept its old meaning
   * @throws SessionError if there are too many names
   */
  endGroup(hasFailed: boolean): void {
    const { statements, portals } = this.names;
    if (hasFailed) {
      for (const name of this.before.statements) statements.add(name);
      for (const name of this.before.portals) portals.add(name);
    }
    if (statements.size + portals.size > MAX_NAMES) throw tooMany();
    this.before = { statements: new Set(statements), portals: new Set(portals) };
  }
}

function set(names: Set<string>, name: string, isIn: boolean): void {
  if (isIn) names.add(name);
  else names.delete(name);
}

function require(...names: string[]): void {
  if (!names.every((name) => NAME.test(name))) throw notName();
}

const notName = () =>
  new SessionError(
    '42602',
    'names of statements and portals of the user reader may have at most 63 characters of ASCII',
    'malformed',
  );

const tooMany = () => new SessionError('54000', 'too many prepared statements that end a transaction', 'malformed');
