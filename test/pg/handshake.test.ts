/** Logins to real servers, and to one that asks for passwords in its own way. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Hosts } from '../../src/pg/hosts.js';
import { ConnectionLost, NoPrimary, PostgresError, Session } from '../../src/pg/index.js';
import { fatal } from '../support/fatal.js';
import { testServers } from '../support/postgres.js';

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  const login = { ...server.connection, connectionTimeoutMillis: 5_000 };

  it('works with SCRAM-SHA-256, with the settings of the connection', async () => {
    const session = await Session.connect({ ...login, application_name: 'a login', options: '-c work_mem=1MB' });
    const shown = {
      text: `SELECT current_setting('application_name'), current_setting('work_mem'), pg_backend_pid()`,
      params: [],
    };
    expect(await session.query(shown)).toEqual([['a login', '1MB', String(session.processId)]]);
    await session.close();
  });

  it('reports why a login was refused', async () => {
    const error = await failureOf(Session.connect({ ...login, password: 'wrong' }));
    expect(error).toBeInstanceOf(PostgresError);
    expect(error).toMatchObject({ sqlstate: '28P01' });
    expect(await failureOf(Session.connect({ ...login, database: 'nowhere' }))).toMatchObject({ sqlstate: '3D000' });
  });
});

describe('a server', () => {
  const servers: Server[] = [];
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    for (const server of servers.splice(0)) server.close();
  });

  const message = (type: string, ...body: (string | number)[]): Buffer => {
    const bytes = Buffer.concat(
      body.map((part) => {
        if (typeof part === 'string') return Buffer.from(part, 'latin1');
        const number = Buffer.alloc(4);
        number.writeInt32BE(part);
        return number;
      }),
    );
    const length = Buffer.alloc(4);
    length.writeInt32BE(4 + bytes.length);
    return Buffer.concat([Buffer.from(type), length, bytes]);
  };
  const WELCOME = Buffer.concat([message('R', 0), message('K', 7, 8), message('Z', 'I')]);

  /** Answers each message of the client with the next reply. @returns what it got, and how to log in there */
  async function answering(...replies: (Buffer | null)[]) {
    const got: Buffer[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        got.push(bytes);
        const reply = replies.shift();
        if (reply === null) socket.destroy();
        else if (reply !== undefined) socket.write(reply);
      });
    }).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const login = { host: '127.0.0.1', port, user: 'me', password: 'secret', database: 'here' };
    return { got, login: { ...login, connectionTimeoutMillis: 500 } };
  }

  it.each([
    ['as it is', message('R', 3), 'secret'],
    ['by MD5', message('R', 5, 'salt'), `md5${md5(`${md5('secretme')}salt`)}`],
  ])('gets the password %s', async (_how, question, response) => {
    const { got, login } = await answering(question, WELCOME);
    const session = await Session.connect(login);
    expect(got[1]).toEqual(message('p', `${response}\0`));
    expect(session.processId).toBe(7);
    session.destroy(new Error('over'));
  });

  it('is not trusted if it cannot prove that it knows the password', async () => {
    const first = `r=NONCE,s=${Buffer.from('salt').toString('base64')},i=1`;
    const { login } = await answering(message('R', 10, 'SCRAM-SHA-256\0\0'), message('R', 11, first));
    expect(await failureOf(Session.connect(login))).toBeInstanceOf(ConnectionLost);
  });

  it.each([
    ['speaks no TLS', Buffer.from('N')],
    ['sends more than the response before TLS begins', Buffer.from('SX')],
    ['breaks off', null],
    ['says nothing', undefined],
  ])('gets nothing without TLS if it %s', async (_what, reply) => {
    const { got, login } = await answering(...(reply === undefined ? [] : [reply]));
    expect(await failureOf(Session.connect({ ...login, ssl: true }))).toBeInstanceOf(ConnectionLost);
    expect(got).toHaveLength(1);
  });

  it.each([
    ['says nothing', undefined],
    ['breaks off', null],
    ['speaks another protocol', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['asks for another kind of authentication', message('R', 7)],
  ])('is abandoned if it %s', async (_what, reply) => {
    const { login } = await answering(...(reply === undefined ? [] : [reply]));
    expect(await failureOf(Session.connect(login))).toBeInstanceOf(ConnectionLost);
  });

  const STANDBY = Buffer.concat([message('R', 0), message('S', 'in_hot_standby\0on\0'), message('Z', 'I')]);

  /** One login that tries all of these, of which the first is the one that it begins with. */
  const among = (...servers: Awaited<ReturnType<typeof answering>>[]) => {
    const list = servers.map(({ login: { host, port } }) => ({ host, port }));
    return { ...(servers[0] as (typeof servers)[0]).login, hosts: new Hosts(list), needsPrimary: true };
  };
  const gone = async () => {
    const one = await answering();
    servers.pop()?.close();
    return one;
  };

  it('that is away or a standby is skipped for another host, and the next login starts with that host', async () => {
    const [away, standby, primary] = [
      await answering(null),
      await answering(STANDBY),
      await answering(WELCOME, WELCOME),
    ];
    const login = among(away, standby, primary);
    for (let logins = 0; logins < 2; logins++) (await Session.connect(login)).destroy(new Error('over'));
    expect([away, standby, primary].map(({ got }) => got.length)).toEqual([1, 1, 2]);
  });

  it('that refuses the password is the last host tried', async () => {
    const [one, other] = [await answering(fatal('28P01', 'wrong password')), await answering(WELCOME)];
    expect(await failureOf(Session.connect(among(one, other)))).toMatchObject({ sqlstate: '28P01' });
    expect(other.got).toEqual([]);
  });

  it('that is not a primary: the error names every host with its reason, and no password', async () => {
    const [away, starting] = [await gone(), await answering(fatal('57P03', 'the database system is starting up'))];
    const [silent, standby] = [await answering(), await answering(STANDBY)];
    const login = { ...among(away, starting, silent, standby), connectionTimeoutMillis: 2_000 };
    const error = await failureOf(Session.connect(login));
    expect(error).toBeInstanceOf(NoPrimary);
    const at = ({ login: { host, port } }: typeof away) => `${host}:${port}`;
    expect((error as Error).message.split('; ')).toEqual([
      `${at(away)}: connect ECONNREFUSED ${at(away)}`,
      `${at(starting)}: the database system is starting up`,
      `${at(silent)}: Postgres did not answer the login in time`,
      `${at(standby)} is a standby, which accepts no writes`,
    ]);
  });

  it('that is a standby is refused even if it is the only host', async () => {
    const { login } = await answering(STANDBY);
    expect(await failureOf(Session.connect({ ...login, needsPrimary: true }))).toBeInstanceOf(NoPrimary);
  });

  it('that takes over from another ends the sessions of that one, and no others', async () => {
    const [former, next] = [await answering(WELCOME), await answering(WELCOME, WELCOME)];
    const login = among(former, next);
    const old = await Session.connect(login);
    const query = failureOf(old.query({ text: 'SELECT 1', params: [] }));
    servers[0]?.close();
    const [first, second] = [await Session.connect(login), await Session.connect(login)];
    expect(await query).toMatchObject({ message: `The primary is now 127.0.0.1:${next.login.port}` });
    expect([old, first, second].map(({ closed }) => closed)).toEqual([true, false, false]);
    for (const session of [first, second]) session.destroy(new Error('over'));
  });

  it('that refuses a login says why; the error has a code if nothing answers; and a login can be aborted', async () => {
    const { login } = await answering(fatal('57P03', 'the database system is starting up'));
    expect(await failureOf(Session.connect(login))).toMatchObject({ sqlstate: '57P03' });
    for (const server of servers.splice(0)) server.close();
    for (const socket of sockets.splice(0)) socket.destroy();
    expect(await failureOf(Session.connect(login))).toMatchObject({ name: 'ConnectionLost', code: 'ECONNREFUSED' });
    const silent = await answering();
    const signal = AbortSignal.timeout(50);
    expect(await failureOf(Session.connect(silent.login, signal))).toBeInstanceOf(ConnectionLost);
  });
});

function md5(text: string): string {
  return createHash('md5').update(text, 'latin1').digest('hex');
}
