/**
 * For `node --import`: @modelcontextprotocol/conformance imports fs.globSync, which Node 20 lacks; no test of a server
 * calls it.
 */
import { register } from 'node:module';

const FS = 'export * from "node:fs"; export const globSync = undefined;';
const hooks = `
  export const resolve = (name, context, next) =>
    name === 'fs' && context.parentURL?.includes('/conformance/')
      ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(FS)}`)}, shortCircuit: true }
      : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
