package settings

import "strings"

// maxTypos is the most letters by which a suggested word may differ.
const maxTypos = 2

// findClosest returns the one of the words that another word probably means: they differ in letter
// case or by a letter or two. It returns "" if there is none.
func findClosest(word string, words []string) string {
	best, fewest := "", min(maxTypos, len(word)/2)+1
	for _, w := range words {
		if n := edits(strings.ToLower(word), strings.ToLower(w)); n < fewest {
			best, fewest = w, n
		}
	}
	return best
}

// edits counts the letters to insert, delete or change to turn one word into the other.
func edits(a, b string) int {
	if n := len(a) - len(b); n > maxTypos || -n > maxTypos {
		return maxTypos + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
