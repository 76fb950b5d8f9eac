/** Fields of every response to a schema call or to an administrator, in addition to its own. */
import { Type } from '../schema.js';

export const success = { success: Type.Literal(true), message: Type.String() };
