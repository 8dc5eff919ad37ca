package org.apache.flink.streamfusion.tests;

import java.util.ArrayList;
import java.util.List;

/** Says where two results part. */
final class Difference {
    private static final int CONTEXT = 3;

    private Difference() {}

    static void check(String title, List<?> stock, List<?> natively) {
        if (stock.equals(natively)) {
            return;
        }
        int first = 0;
        while (first < Math.min(stock.size(), natively.size()) && stock.get(first).equals(natively.get(first))) {
            first++;
        }
        throw new AssertionError("Results differ in %s%n%d rows on stock, %d natively; first difference at row %d%n%s"
                .formatted(title, stock.size(), natively.size(), first, around(stock, natively, first)));
    }

    private static String around(List<?> stock, List<?> natively, int row) {
        List<String> lines = new ArrayList<>();
        for (int i = Math.max(0, row - CONTEXT); i <= row + CONTEXT; i++) {
            lines.add("%8d  stock   %s%n          native  %s".formatted(i, at(stock, i), at(natively, i)));
        }
        return String.join("\n", lines);
    }

    private static Object at(List<?> rows, int index) {
        return index < rows.size() ? rows.get(index) : "(no row)";
    }
}
