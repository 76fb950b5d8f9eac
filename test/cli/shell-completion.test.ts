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

const hits = (line: string): string[] => complete(line, tables, ['\\d', '\\dt', '\\i'])[0];

it('names of tables and columns, in quotes if SQL needs them', () => {
  expect(hits('select * from ')).toEqual(['"Odd ""one"""', 'customers', 'orders']);
  expect(hits('select * from customers')).toEqual(['customers ']);
  expect(hits('SELECT * FROM CUST')).toEqual(['customer_id', 'customers']);
  expect(hits('select tot')).toEqual(['total ']);
  expect(hits('select o.tot')).toEqual(['total ']);
  expect(hits('select "Sc')).toEqual(['"Score (0-10)" ']);
  expect(hits('select ord')).toEqual(['"order"', 'order', 'orders']);
  expect(hits('\\d cus')).toEqual(['customer_id', 'customers']);
});

it('words of SQL as they are typed, in capitals or not', () => {
  expect(hits('sel')).toEqual(['select ']);
  expect(hits('SEL')).toEqual(['SELECT ']);
});

it('commands', () => {
  expect(hits('\\d')).toEqual(['\\d', '\\dt']);
});

it('no name that a terminal would obey', () => {
  expect(hits('select * from ev')).toEqual([]);
});
