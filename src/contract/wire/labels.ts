/** Labels of Postgres servers on the wire: `region=eu`. */
import { Type } from '../schema.js';

/** Of keys and values. */
const LABEL = '^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$';

export const Labels = Type.Record(Type.String({ pattern: LABEL }), {
  propertyNames: { pattern: LABEL },
  maxProperties: 32,
  examples: [{ region: 'eu' }],
});
