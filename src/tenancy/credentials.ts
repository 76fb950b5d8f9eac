/**
 * Passwords of the login roles. None is stored: each is derived from the instance secret and the role's name. Only a SCRAM
 * verifier is sent to the server, so no log or catalog contains a password.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';

/**
 * Iterations slow down the guessing of passwords that people choose. Ours have 256 random bits and cannot be guessed at
 * any count, but every login pays for each iteration.
 */
const SCRAM_ITERATIONS = 32;

export class Credentials {
  constructor(private readonly secret: string) {}

  /** The password of a role: HMAC-SHA-256 of its name under the instance secret, base64url. */
  password(role: string): string {
    return this.derive(`password:${role}`).toString('base64url');
  }

  /** The value for `ALTER ROLE … PASSWORD` (RFC 5803; Postgres manual, pg_authid). */
  scramVerifier(role: string): string {
    const salt = this.derive(`salt:${role}`).subarray(0, 16);
    const salted = pbkdf2Sync(this.password(role), salt, SCRAM_ITERATIONS, 32, 'sha256');
    const hmac = (text: string) => createHmac('sha256', salted).update(text).digest();
    const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64');
    const serverKey = hmac('Server Key').toString('base64');
    return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
  }

  /** Shows whether two instances share the secret, without revealing it. */
  fingerprint(): string {
    return this.derive('fingerprint').toString('hex');
  }

  private derive(purpose: string): Buffer {
    return createHmac('sha256', this.secret).update(purpose).digest();
  }
}
