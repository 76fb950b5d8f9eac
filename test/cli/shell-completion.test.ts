/** What Tab offers in the shell. */
import { expect, it } from 'vitest';
import { complete } from '../../src/cli/remote/shell/complete.js';

const column = (name: string) => ({ name, type: 'TEXT', comment: null });
const tables = [
  { name: 'customers', columns: ['id', 'name', 'Score (0-10)'].map(column) },
  { name: 'orders', columns: ['id', 'customer_id', 'total', 'order'].map(column) },
  { name: 'Odd "one"', columns: [column('x')] },
  { name: 'evil\u001b[2J', columns: [column('evil\u009b')] },
];

async function hits(line: string, above = ''): Promise<string[]> {
  const surroundings = { tables, above, commands: ['\\d', '\\dt', '\\i'], files: () => Promise.resolve(['a.sql']) };
  return (await complete(line, surroundings))[0];
}

it('tables where tables stand', async () => {
  expect(await hits('select * from ')).toEqual(['"Odd ""one"""', 'customers', 'orders']);
  expect(await hits('select * from cus')).toEqual(['customers ']);
  expect(await hits('SELECT * FROM CUS')).toEqual(['customers ']);
  expect(await hits('select * from orders o join c')).toEqual(['customers ']);
  expect(await hits('insert into o')).toEqual(['"Odd ""one"""', 'orders']);
  expect(await hits('select * from customers, or')).toEqual(['orders ']);
  expect(await hits('or', 'select * from')).toContain('orders ');
  expect(await hits('select * from "O')).toEqual(['"Odd ""one""" ']);
});

it('columns of the tables that the statement names, also by alias and from lines above', async () => {
  expect(await hits('select tot', '')).toEqual(['total ']);
  expect(await hits('select * from customers where na')).toEqual(['name ']);
  expect(await hits('select * from orders o where o.')).toEqual(['"order"', 'customer_id', 'id', 'total']);
  expect(await hits('where o.cu', 'select * from orders as o')).toEqual(['customer_id ']);
  expect(await hits('select "Sc')).toEqual(['"Score (0-10)" ']);
  expect(await hits('select customers."S')).toEqual(['"Score (0-10)" ']);
});

it('words as they are typed, in capitals or not', async () => {
  expect(await hits('sel')).toEqual(['select ']);
  expect(await hits('SEL')).toEqual(['SELECT ']);
  expect(await hits('select 1 ')).toEqual([]);
});

it('commands, and what they take', async () => {
  expect(await hits('\\d')).toEqual(['\\d', '\\dt']);
  expect(await hits('\\d cus')).toEqual(['customers ']);
  expect(await hits('\\i a')).toEqual(['a.sql']);
});

it('no name that a terminal would obey', async () => {
  expect(await hits('select * from ev')).toEqual([]);
  expect(await hits('select ev')).toEqual([]);
});
