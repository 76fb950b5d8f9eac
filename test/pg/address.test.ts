/** What a connection URL means, and that no part of it is ignored. */
import { expect, it } from 'vitest';
import { addressOfUrl } from '../../src/pg/index.js';

const hostsOf = (place: string) => {
  const { host, port, hosts, needsPrimary } = addressOfUrl(`postgres://me:p%40ss@${place}`);
  return { first: [host, port], list: hosts?.list.map((one) => `${one.host} ${one.port}`), needsPrimary };
};

it.each([
  ['a/db', ['a', 5432], undefined],
  ['a:1/db?target_session_attrs=read-write', ['a', 1], undefined],
  ['a,b/db', ['a', 5432], ['a 5432', 'b 5432']],
  ['a:1,b:2,c/db?sslmode=disable', ['a', 1], ['a 1', 'b 2', 'c 5432']],
  ['a:1,[::1]:2/db?target_session_attrs=any', ['a', 1], ['a 1', '::1 2']],
  ['/db?host=a,b&port=1,2', ['a', 1], ['a 1', 'b 2']],
  ['/db?host=a,b&port=7', ['a', 7], ['a 7', 'b 7']],
  ['/db?host=/run/a&port=7', ['/run/a', 7], undefined],
])('reads the hosts of %s', (place, first, list) => {
  expect(hostsOf(place)).toEqual({ first, list, needsPrimary: true });
});

it('applies the connect_timeout of the URL', () => {
  expect(addressOfUrl('postgres://me@a/db?connect_timeout=2').connectionTimeoutMillis).toBe(2_000);
});

it.each([
  ['a/db?passfile=/secret', 'DATABASE_URL has options that are not supported: passfile'],
  ['a/db?sslmode=require&channel_binding=require', 'channel_binding'],
  ['a/db?target_session_attrs=prefer-standby', 'target_session_attrs must be one of any, primary, read-write'],
  ['a/db?connect_timeout=soon', 'connect_timeout must be a number of seconds'],
  ['a/db?sslmode=verify-full&sslrootcert=/nowhere.crt', 'DATABASE_URL names a file that cannot be read: /nowhere.crt'],
  ['a,/db', 'DATABASE_URL must name a host'],
  ['a,b:soon/db', 'DATABASE_URL: soon is not a port'],
  ['a:65536,b/db', 'DATABASE_URL: 65536 is not a port'],
  ['/db?host=a,b,c&port=1,2', 'DATABASE_URL names 3 hosts and 2 ports'],
  ['a,b/db?host=/run/a,b', 'DATABASE_URL'],
])('refuses %s, without showing the password', (place, message) => {
  const open = () => addressOfUrl(`postgres://me:secret@${place}`);
  expect(open).toThrow(message);
  expect(open).not.toThrow('secret@');
});
