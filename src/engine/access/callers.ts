/**
 * Who sent a request, by its token: one of ours, or a JWT of the operator's identity provider. Wrong ones count against the
 * address they come from.
 */
import { EngineError } from '../../contract/errors.js';
import type { JwtVerifier } from './jwt.js';
import type { Caller, Tokens } from './tokens.js';
import type { WrongTokens } from './wrong-tokens.js';

export class Callers {
  constructor(
    private readonly tokens: Tokens,
    private readonly wrongTokens: WrongTokens,
    /** null: there is no identity provider. */
    private readonly jwt: JwtVerifier | null,
  ) {}

  /**
   * @param address of the client, by which wrong tokens are counted
   * @throws EngineError unauthorized, token_expired, rate_limited, database_unavailable
   */
  async authenticate(token: string, address: string): Promise<Caller> {
    try {
      // A JWT is verified without a question to the database.
      if (this.jwt !== null && this.jwt.accepts(token)) return await this.jwt.authenticate(token);
      return await this.tokens.authenticate(token, () => this.wrongTokens.beforeQuestion(address));
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unauthorized') throw this.wrongTokens.refused(address, error);
      throw error;
    }
  }
}
