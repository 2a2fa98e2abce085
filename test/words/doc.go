// Package words checks the text of the repository against the list in words.txt.
package words
