// Package words checks that the texts of the repository do not use the words in words.txt.
package words
