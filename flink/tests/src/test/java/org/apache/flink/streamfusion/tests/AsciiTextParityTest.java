package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Functions that are native in batches of ASCII, in batches of it, of other text and of both. */
@RequiresNative
class AsciiTextParityTest {
    private static final String[] TEXTS = {
        "https://www.nexmark.com/abc/item.htm?query=1&channel_id=12345",
        "channel_id=7&x=1",
        "Apple",
        "",
        null,
        "xchannel_id=7",
        "İstanbul ß ǅ &channel_id=é",
        "&channel_id=&channel_id=2",
        "line\r\nend"
    };

    private static List<Row> rows() {
        List<Row> rows = new ArrayList<>();
        for (String text : TEXTS) {
            for (String other : TEXTS) {
                rows.add(Row.of(text, other));
            }
        }
        return rows;
    }

    @Test
    void caseAndGroups() throws Exception {
        Parity.of("SELECT LOWER(a), UPPER(b), REGEXP_EXTRACT(a, '(&|^)channel_id=([^&]*)', 2), "
                        + "REGEXP_EXTRACT(b, '[a-z]+.'), REGEXP_EXTRACT(b, '(a)|(.)', 1), REGEXP_EXTRACT(a, '(.)$', 1) FROM t "
                        + "WHERE REGEXP_EXTRACT(a, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL OR LOWER(b) IN ('apple', 'line')")
                .input("t", "a STRING, b STRING", rows())
                .batchSizes(4)
                .expectHosted("LOWER", "UPPER", "REGEXP_EXTRACT")
                .run();
    }
}
