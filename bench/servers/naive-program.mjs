/**
 * The obvious first version: Node's HTTP and a Postgres driver. No authentication, no checks, no scopes, no log.
 */
import { createServer } from 'node:http';
import pg from 'pg';

pg.types.setTypeParser(pg.types.builtins.INT8, Number);
const pool = new pg.Pool({ ...JSON.parse(process.env.LOGIN), max: Number(process.env.POOL) });

createServer(async (request, response) => {
  try {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    const query = pathname === '/sql' ? { text: JSON.parse(body).sql } : insert(pathname.slice(1), searchParams, body);
    const { rows } = await pool.query(query);
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(rows));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
}).listen(Number(process.env.PORT), '127.0.0.1');

function insert(table, searchParams, body) {
  const columns = searchParams.get('columns');
  const records = `jsonb_populate_recordset(NULL::${table}, $1)`;
  return { name: table, text: `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM ${records}`, values: [body] };
}
