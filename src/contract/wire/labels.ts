/** Labels of Postgres servers on the wire: `region=eu`. */
import { LABEL } from '../patterns.js';
import { Type } from '../schema.js';

export const Labels = Type.Record(Type.String({ pattern: LABEL }), {
  propertyNames: { pattern: LABEL },
  maxProperties: 32,
  examples: [{ region: 'eu' }],
});
