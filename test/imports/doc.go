// Package imports checks the imports of all packages of this module. It also checks that docs/design.md lists all
// packages.
package imports
