/** The recipes in Python print what docs/recipes.md shows. */
import { it } from 'vitest';
import { expectRecipes } from '../support/recipes.js';

it('in Python', () => expectRecipes('python', (program) => ['python3', '-c', program]));
