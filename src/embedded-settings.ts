/** Settings of the embedded servers: rows of the table in `settings.ts`. They mean nothing with a database URL. */
import { setting } from './setting.js';
import { integer, uidRange } from './setting-values.js';

export const EMBEDDED_SETTINGS = {
  backendMemoryMib: setting<number | null>({
    flag: 'backend-memory-mib',
    default: null,
    value: 'MIB',
    describe: "Memory of one process of the embedded Postgres. Without it, a sixteenth of the machine's.",
    parse: integer(64, 1_048_576),
  }),
  maxServers: setting<number | null>({
    flag: 'max-servers',
    default: null,
    value: 'N',
    describe:
      'Embedded Postgres servers of projects that may run at once. Without it, as many as memory, processes, open files ' +
      'and shared memory segments allow.',
    parse: integer(2, 100_000),
  }),
  idleStopMs: setting({
    flag: 'idle-stop-ms',
    default: 600_000,
    value: 'MS',
    describe: 'Stop the embedded Postgres server of a project that has not been used for this long.',
    parse: integer(1_000, 86_400_000),
  }),
  sharedBuffersMib: setting({
    flag: 'shared-buffers-mib',
    default: 32,
    value: 'MIB',
    describe: "Page cache of each project's embedded Postgres server (shared_buffers).",
    parse: integer(1, 1_048_576),
  }),
  maxWalSizeMib: setting({
    flag: 'max-wal-size-mib',
    default: 256,
    value: 'MIB',
    describe: "Write-ahead log that each project's embedded Postgres server keeps between checkpoints (max_wal_size).",
    parse: integer(16, 1_048_576),
  }),
  diskReserveMib: setting({
    flag: 'disk-reserve-mib',
    default: 1_024,
    value: 'MIB',
    describe: 'Disk space to keep free. Below it, the servers of projects that grow are stopped, the fastest first.',
    parse: integer(0, 1_048_576),
  }),
  projectUids: setting<string | null>({
    flag: 'project-uids',
    default: '50000-59999',
    value: 'RANGE',
    describe:
      "User ids for the projects' embedded servers, one each, if the service runs as root, such as 50000-59999; off: " +
      'all run as the same user.',
    parse: uidRange,
  }),
};
