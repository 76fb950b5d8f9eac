/** The raw messages of Postgres's protocol, for code between a client and a server: the Postgres port and pg_dump. */
export { Framing } from './framing.js';
export { MessageScan } from './message-scan.js';
export { BACKEND, FRONTEND, MESSAGE_HEADER, parse, readErrorFields, simpleQuery, TERMINATE } from './messages.js';
export * from './server-messages.js';
export { readStartUp, type StartUp, startUpSize } from './start-up.js';
