#!/usr/bin/env node
/** The program `cdp`. */
import { main } from './main.js';

await main(process.argv.slice(2));
