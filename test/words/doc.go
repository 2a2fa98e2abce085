// Package words checks the text of the repository against the list of words.txt.
package words
