/** What every answer to a schema call or to an administrator has, beside what is its own. */
import { Type } from '../schema.js';

export const success = { success: Type.Literal(true), message: Type.String() };
