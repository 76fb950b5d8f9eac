/** A name in a request. */
import { NAME_PATTERN } from '../names.js';
import { DOCUMENTED, Type } from '../schema.js';

export const NameText = (what: string) =>
  Type.String({ description: `Name of the ${what}.`, examples: ['email'], [DOCUMENTED]: { pattern: NAME_PATTERN } });
