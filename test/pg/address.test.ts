/** What a connection URL says, and that nothing in it is ignored. */
import { expect, it } from 'vitest';
import { addressOfUrl } from '../../src/pg/index.js';

const hostsOf = (place: string) => {
  const { host, port, hosts } = addressOfUrl(`postgres://me:p%40ss@${place}`);
  return {
    first: [host, port],
    list: hosts?.list.map((one) => `${one.host} ${one.port}`),
    primary: hosts?.needsPrimary,
  };
};

it.each([
  ['a/db', ['a', 5432], undefined, undefined],
  ['a:1/db?target_session_attrs=read-write', ['a', 1], ['a 1'], true],
  ['a,b/db', ['a', 5432], ['a 5432', 'b 5432'], true],
  ['a:1,b:2,c/db?sslmode=disable', ['a', 1], ['a 1', 'b 2', 'c 5432'], true],
  ['a:1,[::1]:2/db?target_session_attrs=any', ['a', 1], ['a 1', '::1 2'], false],
  ['/db?host=a,b&port=1,2', ['a', 1], ['a 1', 'b 2'], true],
  ['/db?host=/run/a&port=7', ['/run/a', 7], undefined, undefined],
])('%s', (place, first, list, primary) => {
  expect(hostsOf(place)).toEqual({ first, list, primary });
});

it('a time limit of the URL holds', () => {
  expect(addressOfUrl('postgres://me@a/db?connect_timeout=2').connectionTimeoutMillis).toBe(2_000);
});

it.each([
  ['?passfile=/secret', 'DATABASE_URL has options that are not supported: passfile'],
  ['?sslmode=require&channel_binding=require', 'channel_binding'],
  ['?target_session_attrs=standby', 'target_session_attrs must be one of any, primary, read-write'],
  ['?connect_timeout=soon', 'connect_timeout must be a number of seconds'],
  ['?sslmode=verify-full&sslrootcert=/nowhere.crt', 'DATABASE_URL names a file that cannot be read: /nowhere.crt'],
])('refuses %s, without showing the password', (query, message) => {
  const open = () => addressOfUrl(`postgres://me:secret@a/db${query}`);
  expect(open).toThrow(message);
  expect(open).not.toThrow('secret@');
});
