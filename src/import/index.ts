/** What the command `cdp import` uses of this folder. */
export { FORMATS, formatName } from './format.js';
export { importFiles, type ImportOptions, previewImport } from './import.js';
export { labelOf } from './input.js';
export { InputError } from './input-error.js';
export type { ImportPlan } from './plan.js';
export type { ImportResult, Interruption, Reporter } from './run.js';
export type { ShowProgress } from './scan.js';
export type { ReadOptions } from './source.js';
export { DATE_ORDERS } from './timestamps.js';
