/** The login of the driver in the words of libpq, for Postgres's own programs: environment, and files for certificates. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ConnectionOptions, rootCertificates } from 'node:tls';
import type { LoginOptions } from '../../postgres/server.js';

/**
 * The environment of a program that is to log in so (Postgres manual 34.15). Nothing of ours is passed on, and no
 * password is on a command line, where other users of the machine could read it.
 * @param folder of mode 700, which outlives the program; certificates go there
 */
export async function libpqEnvironment(login: LoginOptions, folder: string): Promise<Record<string, string>> {
  const { host, port, user, password, database, ssl, options } = login;
  return {
    LC_ALL: 'C',
    PGHOST: host,
    PGPORT: String(port),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGCONNECT_TIMEOUT: String(Math.ceil(login.connectionTimeoutMillis / 1_000)),
    PGAPPNAME: login.application_name ?? 'cdp service',
    PGCLIENTENCODING: 'UTF8',
    ...(options === undefined ? {} : { PGOPTIONS: options }),
    ...(await sslEnvironment(ssl, folder)),
  };
}

async function sslEnvironment(ssl: boolean | ConnectionOptions | undefined, folder: string) {
  if (ssl === undefined || ssl === false) return { PGSSLMODE: 'disable' };
  const { ca, cert, key, rejectUnauthorized, checkServerIdentity } = ssl === true ? ({} as ConnectionOptions) : ssl;
  const file = async (name: string, content: unknown): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, Buffer.isBuffer(content) ? content : String(content), { mode: 0o600 });
    return path;
  };
  // The driver trusts Node's own list where the URL names no certificate; libpq would look into ~/.postgresql.
  const roots = ca ?? rootCertificates.join('\n');
  const verified = checkServerIdentity === undefined ? 'verify-full' : 'verify-ca';
  return {
    PGSSLMODE: rejectUnauthorized === false ? 'require' : verified,
    // With `require`, libpq would verify all the same if it found a root certificate.
    PGSSLROOTCERT: rejectUnauthorized === false ? join(folder, 'none') : await file('root.crt', roots),
    ...(cert === undefined ? {} : { PGSSLCERT: await file('client.crt', cert) }),
    ...(key === undefined ? {} : { PGSSLKEY: await file('client.key', key) }),
  };
}
