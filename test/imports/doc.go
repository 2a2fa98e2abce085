// Package imports checks the imports of all packages of this module, and that docs/design.md lists all packages.
package imports
