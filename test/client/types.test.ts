/**
 * The types of the client, checked by the compiler (`npm run types`); nothing here runs except the code of the
 * assertions.
 */
import { describe, expectTypeOf, it } from 'vitest';
import {
  CdpClient,
  type CdpError,
  type CdpErrorCode,
  type ErrorCode,
  type InsertResult,
  type QueryResult,
  type RefusedRecord,
  type Table,
} from '../../src/client/index.js';

interface Customer {
  email: string;
  age?: number | null;
}

// Never called.
const cdp = {} as CdpClient;
const customers = {} as ReturnType<typeof cdp.table<Customer>>;

describe('the types', () => {
  it("of records are the caller's, for every kind of source", () => {
    expectTypeOf<typeof customers.insert>().returns.resolves.toEqualTypeOf<InsertResult>();
    expectTypeOf<typeof customers.insert>().parameter(0).toEqualTypeOf<Iterable<Customer> | AsyncIterable<Customer>>();
    type Refused = Parameters<NonNullable<NonNullable<Parameters<typeof customers.insert>[1]>['onRefused']>>[0];
    expectTypeOf<Refused>().toEqualTypeOf<RefusedRecord<Customer>>();
  });

  it('refuse what the service would refuse', () => {
    const wrong = () => {
      // @ts-expect-error a column that Customer has not
      void customers.insert([{ emial: 'ada@example.com' }]);
      // @ts-expect-error one record is no list of records
      void customers.insert({ email: 'ada@example.com' });
      // @ts-expect-error no such type
      void cdp.addColumn('t', { name: 'a', type: 'STRING' });
      // @ts-expect-error no such field
      void cdp.createTable({ table_name: 't', columns: [], colour: 'red' });
      // @ts-expect-error no such option
      void cdp.query('SELECT 1', [], { max_row: 1 });
      // @ts-expect-error a stream has no cap
      cdp.sqlStream('SELECT 1', [], { max_rows: 1 });
      // @ts-expect-error a template, not a call
      void cdp.sql('SELECT 1');
      // @ts-expect-error the token is missing
      new CdpClient({ url: 'http://localhost' });
    };
    expectTypeOf(wrong).returns.toBeVoid();
  });

  it('accept what the service accepts', () => {
    const right = () => {
      void cdp.createTable({ table_name: 't', columns: [{ name: 'a', type: 'TEXT', comment: null }], comment: 'c' });
      void cdp.alterColumn('t', 'a', { new_type: 'JSONB', comment: '' });
    };
    expectTypeOf(right).returns.toBeVoid();
  });

  it('of rows reach the caller from the template, the query and the stream', () => {
    interface Row {
      n: number;
    }
    const query = () => cdp.sql<Row>`SELECT 1 AS n`;
    void query;
    expectTypeOf<Awaited<ReturnType<typeof query>>>().toEqualTypeOf<QueryResult<Row>>();
    const text = () => cdp.query<Row>('SELECT 1 AS n');
    expectTypeOf(text).returns.resolves.toHaveProperty('rows').toEqualTypeOf<Row[]>();
    const stream = () => cdp.sqlStream<Row>('SELECT 1 AS n');
    expectTypeOf(stream).returns.toExtend<AsyncIterable<Row>>();
    const untyped = () => cdp.query('SELECT 1');
    expectTypeOf(untyped).returns.resolves.toHaveProperty('rows').toEqualTypeOf<Record<string, unknown>[]>();
  });

  it('of the schema are those on the wire', () => {
    expectTypeOf<CdpClient['tables']>().returns.resolves.toEqualTypeOf<Table[]>();
    expectTypeOf<Table['kind']>().toEqualTypeOf<'table' | 'view' | 'materialized_view' | 'foreign_table'>();
  });

  it("of error codes are the closed list plus the client's own", () => {
    expectTypeOf<ErrorCode>().toExtend<CdpErrorCode>();
    expectTypeOf<Exclude<CdpErrorCode, ErrorCode>>().toEqualTypeOf<
      'network_error' | 'unexpected_answer' | 'aborted' | 'caller_error'
    >();
    expectTypeOf<CdpError['code']>().toEqualTypeOf<CdpErrorCode>();
    // @ts-expect-error no such code
    const code: CdpErrorCode = 'unknown_colum';
    void code;
  });
});
