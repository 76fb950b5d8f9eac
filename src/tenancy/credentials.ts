/**
 * What follows from the secret of the installation. Passwords of the login roles are not stored: each is derived from it and the
 * role's name, and only a SCRAM verifier is sent to the server, so no log or catalog contains a password. What must be stored is
 * sealed with it.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';

/**
 * Iterations slow down the guessing of passwords that people choose. Ours have 256 random bits and cannot be guessed at
 * any count, but every login pays for each iteration.
 */
const SCRAM_ITERATIONS = 32;

/** NIST SP 800-38D, 5.2.1. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

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

  /** The key of the hashes of statements in the audit log. */
  auditKey(): Buffer {
    return this.derive('audit');
  }

  /**
   * Seals a text with AES-256-GCM.
   * @param place where it is kept: it opens only there
   * @returns nonce, tag and ciphertext, base64
   */
  seal(text: string, place: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.derive('seal'), nonce).setAAD(Buffer.from(place));
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64');
  }

  /** @returns null if it was sealed with another secret or for another place, or changed since */
  open(sealed: string, place: string): string | null {
    const bytes = Buffer.from(sealed, 'base64');
    const [nonce, tag] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)];
    try {
      const options = { authTagLength: TAG_BYTES };
      const decipher = createDecipheriv('aes-256-gcm', this.derive('seal'), nonce, options).setAAD(Buffer.from(place));
      decipher.setAuthTag(tag);
      return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
    } catch {
      return null;
    }
  }

  private derive(purpose: string): Buffer {
    return createHmac('sha256', this.secret).update(purpose).digest();
  }
}
