/** What Postgres sends when it ends a connection, for tests that imitate it. */

/** ErrorResponse of severity FATAL (Postgres manual, Message Formats). */
export function fatal(sqlstate: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlstate}\0M${message}\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
