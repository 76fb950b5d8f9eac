/**
 * Passwords of the login roles. None is stored: each is derived from the instance secret and the role's name, and the
 * server is only ever sent a SCRAM verifier, so no log and no catalog holds a password.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';

/**
 * Iterations slow down guessing of passwords that people choose. Ours are 256 random bits: guessing is hopeless at any
 * count, while the client pays for each iteration at every login.
 */
const SCRAM_ITERATIONS = 32;

export class Credentials {
  constructor(private readonly secret: string) {}

  /** The password of a role: HMAC-SHA-256 of its name under the instance secret, base64url. */
  password(role: string): string {
    return this.derive(`password:${role}`).toString('base64url');
  }

  /** What `ALTER ROLE … PASSWORD` gets (RFC 5803; Postgres manual 53.8 `pg_authid.rolpassword`). */
  scramVerifier(role: string): string {
    const salt = this.derive(`salt:${role}`).subarray(0, 16);
    const salted = pbkdf2Sync(this.password(role), salt, SCRAM_ITERATIONS, 32, 'sha256');
    const hmac = (text: string) => createHmac('sha256', salted).update(text).digest();
    const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64');
    const serverKey = hmac('Server Key').toString('base64');
    return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
  }

  /** Tells whether two instances share their secret, without telling the secret. */
  fingerprint(): string {
    return this.derive('fingerprint').toString('hex');
  }

  private derive(purpose: string): Buffer {
    return createHmac('sha256', this.secret).update(purpose).digest();
  }
}
