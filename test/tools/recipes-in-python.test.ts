/** The recipes in Python print what docs/recipes.md shows, also on a bad network. */
import { it } from 'vitest';
import { expectRecipes } from '../support/recipes.js';

it('work in Python', () => expectRecipes('python', (program) => ['python3', '-c', program]));

it('work in Python with a fault for each batch', () =>
  expectRecipes(
    'python',
    // A time limit that a test can wait for.
    (program) => ['python3', '-c', program.replace('os.environ["TOKEN"])', 'os.environ["TOKEN"], timeout=5)')],
    ['drop-after', 'unavailable', 'cut', 'drop-before', 'hang', 'bad-gateway', 'rate-limit'],
  ));
