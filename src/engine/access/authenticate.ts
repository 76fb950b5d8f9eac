/**
 * Who sent a request, by its token: one of ours, or a JWT of the operator's identity provider. Wrong ones count against the
 * address they come from.
 */
import { EngineError } from '../../contract/errors.js';
import type { JwtVerifier } from './jwt.js';
import type { Caller, Tokens } from './tokens.js';
import type { WrongTokens } from './wrong-tokens.js';

/**
 * @param address of the client, by which wrong tokens are counted
 * @throws EngineError unauthorized, token_expired, rate_limited, database_unavailable
 */
export type Authenticate = (token: string, address: string) => Promise<Caller>;

/** @param jwt null: there is no identity provider */
export const authenticator =
  (tokens: Tokens, wrongTokens: WrongTokens, jwt: JwtVerifier | null): Authenticate =>
  async (token, address) => {
    try {
      // A JWT is verified without a question to the database.
      if (jwt !== null && jwt.accepts(token)) return await jwt.authenticate(token);
      return await tokens.authenticate(token, () => wrongTokens.beforeQuestion(address));
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unauthorized') throw wrongTokens.refused(address, error);
      throw error;
    }
  };
