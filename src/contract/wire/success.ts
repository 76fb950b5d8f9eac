/** What every answer to a schema call or to an administrator has, in addition to its own fields. */
import { Type } from '../schema.js';

export const success = { success: Type.Literal(true), message: Type.String() };
